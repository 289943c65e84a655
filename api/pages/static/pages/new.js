// The form for a job: shows the maximum of calls and cost while people write, and adds sources.
(() => {
  "use strict";
  const form = document.getElementById("job-form");
  const place = document.querySelector("[data-preview]");
  if (!form || !place) return;
  let timer;
  let asked = 0;

  async function preview() {
    const number = ++asked;
    const body = new URLSearchParams(new FormData(form));
    body.delete("attachments"); // Files are too large to be sent at each change
    body.set("do", "preview");
    const response = await fetch(form.getAttribute("action"), { method: "POST", body, headers: { Accept: "text/html" } }).catch(() => null);
    if (!response?.ok || number !== asked) return;
    const open = [...place.querySelectorAll("details[open]")].map((each) => each.id);
    const found = new DOMParser().parseFromString(await response.text(), "text/html").getElementById("preview");
    if (!found) return;
    for (const each of found.querySelectorAll("details")) each.open = open.includes(each.id);
    for (const button of found.querySelectorAll("button[data-copy]")) button.hidden = !navigator.clipboard;
    place.replaceChildren(found);
  }

  function addSource(event) {
    const button = event.target.closest("[data-add-source]");
    if (!button) return;
    event.preventDefault();
    const rows = form.querySelectorAll("[data-source]");
    const row = rows[rows.length - 1].cloneNode(true);
    const number = rows.length + 1;
    row.querySelector("legend").textContent = `Source ${number}`;
    for (const error of row.querySelectorAll(".field-error")) error.remove();
    for (const label of row.querySelectorAll("label")) label.htmlFor = label.htmlFor.replace(/\d+$/, number);
    for (const field of row.querySelectorAll("input, textarea")) {
      field.id = field.id.replace(/\d+$/, number);
      field.value = "";
      field.removeAttribute("aria-invalid");
      field.removeAttribute("aria-describedby");
    }
    rows[rows.length - 1].after(row);
    row.querySelector("input").focus();
  }

  // A second click while the form is being sent would send it again.
  function onSubmit(event) {
    const button = event.submitter;
    setTimeout(() => {
      setDisabled(true);
      if (button?.dataset.busy) button.textContent = button.dataset.busy;
    });
  }
  function setDisabled(is) {
    for (const each of form.querySelectorAll("button")) each.disabled = is;
  }

  form.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(preview, 500); });
  form.addEventListener("click", addSource);
  form.addEventListener("submit", onSubmit);
  // A browser that goes back restores the page with its disabled buttons.
  window.addEventListener("pageshow", (event) => { if (event.persisted) setDisabled(false); });
  document.getElementById("summary")?.focus();
})();
