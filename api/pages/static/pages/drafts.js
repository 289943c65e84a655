// Drafts: a form with data-draft keeps what people typed, in this browser, until it is sent. Secrets are never kept.
(() => {
  "use strict";
  const prefix = "redraft-draft:";
  const secret = new Set(["password", "file", "hidden"]);
  const dirty = new Set();

  // A form that was sent and is not shown again was accepted. On a page with data-problem it was not, and neither on
  // a page without a redirection, because the server redirects after a form: people came here after it did not answer.
  function settle(isAnswered) {
    const key = sessionStorage.getItem(prefix);
    if (!key || document.querySelector("[data-problem]")) return;
    sessionStorage.removeItem(prefix);
    if (isAnswered && !document.querySelector(`form[data-draft="${CSS.escape(key)}"]`)) localStorage.removeItem(prefix + key);
  }
  settle(performance.getEntriesByType("navigation")[0]?.redirectCount > 0);

  function values(form) {
    return [...form.elements]
      .filter((each) => each.name && each.type !== "submit" && each.type !== "button" && !secret.has(each.type) && each.dataset.draft !== "never")
      .map((each) => [each.name, each.type === "checkbox" || each.type === "radio" ? (each.checked ? each.value : null) : each.value]);
  }
  function save(form) {
    const draft = { at: Date.now(), values: values(form) };
    try { localStorage.setItem(prefix + form.dataset.draft, JSON.stringify(draft)); } catch { /* the storage is full or forbidden: there is no draft */ }
  }
  function read(form) {
    try { return JSON.parse(localStorage.getItem(prefix + form.dataset.draft)); } catch { return null; }
  }
  function discard(form) {
    localStorage.removeItem(prefix + form.dataset.draft);
    dirty.delete(form);
  }

  // A form whose rows differ from the draft is rendered by the server, as for a button that adds a row.
  async function restore(form, draft) {
    const now = values(form);
    const typed = new Map();
    const isSame = now.length === draft.values.length && now.every(([name], index) => name === draft.values[index][0]);
    if (!isSame && form.dataset.draftFrom) {
      const body = new URLSearchParams(draft.values.filter(([, value]) => value !== null));
      body.set("do", "show");
      body.set("part", "1");
      const note = ({ target }) => { if (target.matches("textarea, input:not([type=checkbox], [type=radio])")) typed.set(target.id, target.value); };
      form.addEventListener("input", note);
      const response = await fetch(form.dataset.draftFrom, { method: "POST", body, headers: { Accept: "text/html" } }).catch(() => null);
      const found = response?.ok ? new DOMParser().parseFromString(await response.text(), "text/html").getElementById(form.id) : null;
      form.removeEventListener("input", note);
      const focused = document.activeElement.id;
      if (found) form.replaceChildren(...found.childNodes);
      document.getElementById(focused)?.focus();
    }
    const left = draft.values.slice();
    for (const field of form.elements) {
      const index = left.findIndex(([name]) => name === field.name);
      if (index < 0 || secret.has(field.type) || field.type === "submit") continue;
      const [[, value]] = left.splice(index, 1);
      if (field.type === "checkbox" || field.type === "radio") field.checked = value !== null;
      else if (value !== null) field.value = value;
    }
    // What people typed while the server answered is newer than the draft
    for (const [id, value] of typed) { const field = document.getElementById(id); if (field) field.value = value; }
    for (const each of form.querySelectorAll("details")) {
      if ([...each.querySelectorAll("textarea, input:not([type=checkbox])")].some((field) => field.value && field.value !== field.defaultValue)) each.open = true;
    }
    for (let each = form.closest("details"); each; each = each.parentElement.closest("details")) each.open = true;
    say(form, draft);
    form.dispatchEvent(new Event("input", { bubbles: true }));
  }
  function say(form, draft) {
    const time = new Date(draft.at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
    const words = document.createElement("p");
    words.className = "banner";
    words.setAttribute("role", "status");
    words.append(`Your draft of ${time} is back. `);
    const button = document.createElement("button");
    button.type = "button";
    button.className = "quiet";
    button.textContent = "Discard it";
    button.addEventListener("click", () => { discard(form); location.reload(); });
    words.append(button);
    form.before(words);
  }

  // On a slow connection people type before this script runs
  function isTyped(form) {
    return [...form.elements].some((field) => field.matches("textarea") && field.value !== field.defaultValue);
  }
  function prepare(form) {
    const before = JSON.stringify(values(form));
    const draft = read(form);
    // A page that shows the errors of a form already has what was typed
    const isShown = document.querySelector('[role="alert"], .field-error') !== null;
    if (isShown) save(form);
    else if (draft && JSON.stringify(draft.values) !== before) restore(form, draft);
    else if (!draft && isTyped(form)) save(form);
    let timer;
    form.addEventListener("input", (event) => {
      if (event.isTrusted) dirty.add(form);
      clearTimeout(timer);
      timer = setTimeout(() => save(form), 250);
    });
    form.addEventListener("submit", (event) => {
      if (event.defaultPrevented) return;
      clearTimeout(timer);
      save(form);
      dirty.delete(form);
      sessionStorage.setItem(prefix, form.dataset.draft);
    });
  }

  document.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    const form = event.target.closest?.("form");
    const button = form?.querySelector("button.primary");
    if (!button || form.method !== "post") return;
    event.preventDefault();
    form.requestSubmit(button);
  });
  window.addEventListener("beforeunload", (event) => {
    if ([...dirty].some((form) => form.isConnected)) event.preventDefault();
  });
  const prepared = new WeakSet();
  function prepareAll() {
    for (const form of document.querySelectorAll("form[data-draft]")) {
      if (prepared.has(form)) continue;
      prepared.add(form);
      prepare(form);
    }
  }
  document.addEventListener("htmx:after:swap", (event) => {
    if (event.detail?.ctx?.sourceElement?.matches?.("form")) settle(true);
    prepareAll();
  });
  // Back from another page, perhaps that of a browser whose server did not answer
  window.addEventListener("pageshow", (event) => { if (event.persisted) sessionStorage.removeItem(prefix); });
  prepareAll();
})();
