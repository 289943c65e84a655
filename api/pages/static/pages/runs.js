// The rows of a comparison open in place. Without this script, the link of a row leads to a page of its own.
(() => {
  "use strict";
  async function toggle(link, row) {
    if (row.hidden && !row.dataset.loaded) {
      const response = await fetch(link.href);
      if (!response.ok) return window.location.assign(link.href);
      const shown = new DOMParser().parseFromString(await response.text(), "text/html").getElementById("sides");
      // Ids of the loaded part would be given twice if two rows are open
      for (const each of shown.querySelectorAll("[id]")) each.id = `${row.id}-${each.id}`;
      for (const each of shown.querySelectorAll("[data-copy]:not([data-copy=''])")) each.dataset.copy = `${row.id}-${each.dataset.copy}`;
      for (const each of shown.querySelectorAll(".outline a")) each.hash = `#${row.id}-${each.hash.slice(1)}`;
      shown.removeAttribute("id");
      row.firstElementChild.replaceChildren(shown);
      row.dataset.loaded = "yes";
    }
    row.hidden = !row.hidden;
    link.setAttribute("aria-expanded", String(!row.hidden));
  }
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-expands]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    toggle(link, document.getElementById(link.dataset.expands));
  });
  for (const link of document.querySelectorAll("a[data-expands]")) link.setAttribute("aria-expanded", "false");
})();
