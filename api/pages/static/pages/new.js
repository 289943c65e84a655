// The form for a job: shows the maximum of calls and cost while people write, and renews parts of the form.
(() => {
  "use strict";
  const form = document.getElementById("job-form");
  const place = document.querySelector("[data-preview]");
  if (!form || !place) return;
  let timer;
  let asked = 0;
  let renewed = Promise.resolve();

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
    place.replaceChildren(found);
  }

  // A button within a part sends the form, and only that part of the page is replaced: rows are added, moved, converted.
  async function onPartButton(event) {
    const button = event.target.closest("[data-part] button[name]:not([data-whole])");
    if (!button) return;
    event.preventDefault();
    await renew(button.closest("[data-part]").id, button.value);
  }
  // One after the other, because each replaces the part that the next one is about.
  function renew(id, action) {
    renewed = renewed.then(() => replace(document.getElementById(id), action));
    return renewed;
  }
  async function replace(part, action) {
    part.setAttribute("aria-busy", "true");
    let written, text;
    do { // again with what people typed while the server answered
      written = typed();
      text = await rendered(action);
    } while (text && written !== typed());
    part.removeAttribute("aria-busy");
    const found = new DOMParser().parseFromString(text, "text/html").getElementById(part.id);
    if (!found) { part.querySelector(`button[value="${CSS.escape(action)}"]`)?.setAttribute("data-whole", ""); return; }
    if (found.tagName === "DETAILS") found.open = true;
    const focused = document.activeElement;
    part.replaceWith(found);
    // Whoever went on to another field stays there
    const stays = action === "show" && document.getElementById(focused.id);
    const goal = stays || (found.querySelector("[aria-invalid]") ?? document.getElementById(found.dataset.focus) ?? found.querySelector("button"));
    if (goal !== document.activeElement) goal.focus();
    if (stays && Number.isInteger(focused.selectionStart)) stays.setSelectionRange(focused.selectionStart, focused.selectionEnd);
    form.dispatchEvent(new Event("input", { bubbles: true }));
  }
  function typed() {
    return new URLSearchParams(new FormData(form)).toString();
  }
  async function rendered(action) {
    const body = new FormData(form);
    body.delete("attachments");
    body.set("do", action);
    body.set("part", "1");
    const response = await fetch(form.getAttribute("action"), { method: "POST", body, headers: { Accept: "text/html" } }).catch(() => null);
    return response?.ok ? response.text() : "";
  }
  // The kind of a criterion decides about the hint and the keyboard of its value.
  function onChange(event) {
    if (event.target.name !== "criterion_kind") return;
    renew(event.target.closest("[data-part]").id, "show");
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
  form.addEventListener("click", onPartButton);
  form.addEventListener("change", onChange);
  form.addEventListener("submit", onSubmit);
  // A browser that goes back restores the page with its disabled buttons.
  window.addEventListener("pageshow", (event) => { if (event.persisted) setDisabled(false); });
  if (document.activeElement === document.body) document.getElementById("summary")?.focus();
})();
