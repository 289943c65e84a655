// Keys of all pages: help, search, jumps between pages, the neighbours of a row, and a panel with a row's page.
(() => {
  "use strict";
  const pages = { o: "/", n: "/new", j: "/jobs", r: "/runs", a: "/ratings", s: "/settings" };
  const root = new URL("../..", document.querySelector('script[src*="/pages/keys.js"]').src).pathname.replace(/\/static\/.*|\/$/, "");
  const listKey = "redraft-list";
  let isJumping = false;

  function dialog(name) {
    const found = document.getElementById(name);
    if (!found.open) found.showModal();
    return found;
  }

  // A list keeps the order of its rows for this tab, so that the page of a row can link to its neighbours.
  function rememberList() {
    const links = [...document.querySelectorAll("[data-row] th > a[href]")].map((link) => link.pathname + link.search);
    if (links.length) sessionStorage.setItem(listKey, JSON.stringify({ path: location.pathname + location.search, links }));
  }
  function showNeighbours() {
    const list = JSON.parse(sessionStorage.getItem(listKey) ?? "null");
    const at = list?.links.findIndex((link) => `${location.pathname}/`.startsWith(`${link.split("?")[0]}/`)) ?? -1;
    // The page itself may link to its neighbours, but it does not know its place in the list
    if (at < 0 || document.querySelector("[data-row]")) return;
    document.querySelector(".beside")?.remove();
    const place = document.createElement("nav");
    place.className = "beside";
    place.setAttribute("aria-label", "Neighbours in the list");
    const choices = [["Previous", list.links[at - 1], "k"], [`${at + 1} of ${list.links.length} in the list`, list.path, ""], ["Next", list.links[at + 1], "j"]];
    for (const [words, href, key] of choices) {
      if (!href) continue;
      const link = document.createElement("a");
      link.href = href;
      link.textContent = words;
      if (key) link.dataset.key = key;
      place.append(link);
    }
    document.getElementById("main").prepend(place);
  }

  async function peek() {
    const link = document.querySelector('[data-row][aria-selected="true"] th a');
    if (!link) return;
    const response = await fetch(link.href, { headers: { Accept: "text/html" } }).catch(() => null);
    if (!response?.ok) return;
    const main = new DOMParser().parseFromString(await response.text(), "text/html").getElementById("main");
    for (const each of main.querySelectorAll("[id]")) each.removeAttribute("id");
    for (const each of main.querySelectorAll("[data-live], form, script")) each.removeAttribute("data-live");
    for (const each of main.querySelectorAll("form, script, noscript, .beside")) each.remove();
    const panel = dialog("peek");
    panel.querySelector("[data-content]").replaceChildren(...main.childNodes);
    panel.querySelector("a").href = link.href;
    panel.scrollTop = 0;
  }

  function search() {
    const field = document.querySelector('main input[type="search"], main [data-search]');
    if (field?.checkVisibility()) { field.focus(); field.select(); } else dialog("palette").querySelector("input").select();
  }

  function onKey(event) {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      dialog("palette").querySelector("input").select();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, textarea, select, dialog")) return;
    if (isJumping) {
      isJumping = false;
      if (pages[event.key]) { event.stopImmediatePropagation(); location.href = root + pages[event.key]; }
      return;
    }
    if (event.key === "g") { isJumping = true; setTimeout(() => { isJumping = false; }, 1500); }
    else if (event.key === "?") dialog("help-keys");
    else if (event.key === "/") { event.preventDefault(); search(); }
    else if (event.key === "p") peek();
  }

  document.addEventListener("keydown", onKey, { capture: true });
  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-dialog]");
    if (opener) { event.preventDefault(); dialog(opener.dataset.dialog); }
  });
  showNeighbours();
  rememberList();
  document.addEventListener("htmx:after:swap", rememberList);
})();
