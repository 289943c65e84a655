// The trace of a job: arrow keys move between its rows, and the focus follows the details of a row.
(() => {
  "use strict";
  let picked = pickedRow();

  function pickedRow() {
    return document.querySelector(".tree .pick[aria-current]")?.closest(".line").id ?? null;
  }
  function rows() {
    return [...document.querySelectorAll(".tree .pick")].filter((link) => link.checkVisibility());
  }
  function onKey(event) {
    const link = event.target.closest?.(".tree .pick");
    if (!link || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const group = link.closest(".group");
    const own = group?.querySelector(".pick");
    const calls = group?.querySelector("details");
    if (step) {
      const all = rows();
      all[all.indexOf(link) + step]?.focus();
    } else if (event.key === "ArrowRight" && own === link) calls.open = true;
    else if (event.key === "ArrowLeft" && own === link) calls.open = false;
    else if (event.key === "ArrowLeft" && own) own.focus();
    else return;
    event.preventDefault();
  }
  // The address names the selected row, so that a reload selects it again. On a narrow screen the details are below the
  // tree, and get the focus. When they are closed, their row gets the focus back.
  function onSwap() {
    const row = pickedRow();
    if (row === picked) return;
    const details = document.getElementById("selected");
    const link = document.getElementById(row ?? picked)?.querySelector(".pick");
    history.replaceState(history.state, "", row ? link.getAttribute("hx-get") : location.pathname);
    if (!details) link?.focus();
    else if (details.getBoundingClientRect().top > window.innerHeight * 0.8) details.focus();
    picked = row;
  }

  document.addEventListener("keydown", onKey);
  document.addEventListener("htmx:after:swap", onSwap);
})();
