// The list of jobs: marks are kept when the list reloads. Batches of actions follow each other.
(() => {
  "use strict";
  const goOn = document.querySelector("form[data-go-on]");
  if (goOn) { setTimeout(() => goOn.requestSubmit(), 300); return; }

  const boxes = () => [...document.querySelectorAll('#live [data-row] input[type="checkbox"]')];
  let marked = new Set();

  function showCount() {
    const all = document.getElementById("mark-all");
    if (!all) return;
    all.closest("label").hidden = false;
    const number = boxes().filter((box) => box.checked).length;
    all.checked = number > 0 && number === boxes().length;
    all.indeterminate = number > 0 && !all.checked;
    document.getElementById("marked").textContent = number ? ` (${number})` : "";
  }
  function remember() {
    marked = new Set(boxes().filter((box) => box.checked).map((box) => box.value));
  }
  function restore() {
    for (const box of boxes()) box.checked = marked.has(box.value);
    showCount();
  }
  document.addEventListener("change", (event) => {
    if (event.target.id === "mark-all") for (const box of boxes()) box.checked = event.target.checked;
    // A box can be changed during a swap
    if (event.target.checked) marked.add(event.target.value); else marked.delete(event.target.value);
    showCount();
  });
  document.addEventListener("htmx:before:swap", remember);
  document.addEventListener("htmx:after:swap", restore);
  showCount();
})();
