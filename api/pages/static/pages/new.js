// The form for a job: shows the maximum of calls and cost while people write, and renews parts of the form.
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
    place.replaceChildren(found);
  }

  // A button within a part sends the form, and only that part of the page is replaced: rows are added, moved, converted.
  async function onPartButton(event) {
    const button = event.target.closest("[data-part] button[name]:not([data-whole])");
    if (!button) return;
    event.preventDefault();
    await renew(button.closest("[data-part]"), button.value);
  }
  async function renew(part, action) {
    const body = new FormData(form);
    body.delete("attachments");
    body.set("do", action);
    body.set("part", "1");
    part.setAttribute("aria-busy", "true");
    const response = await fetch(form.getAttribute("action"), { method: "POST", body, headers: { Accept: "text/html" } }).catch(() => null);
    part.removeAttribute("aria-busy");
    const text = response?.ok ? await response.text() : "";
    const found = new DOMParser().parseFromString(text, "text/html").getElementById(part.id);
    if (!found) { part.querySelector(`button[value="${CSS.escape(action)}"]`)?.setAttribute("data-whole", ""); return; }
    if (found.tagName === "DETAILS") found.open = true;
    part.replaceWith(found);
    const wrong = found.querySelector("[aria-invalid]");
    (wrong ?? document.getElementById(found.dataset.focus) ?? found.querySelector("button")).focus();
    form.dispatchEvent(new Event("input", { bubbles: true }));
  }
  // The kind of a criterion decides about the hint and the keyboard of its value.
  function onChange(event) {
    if (event.target.name !== "criterion_kind") return;
    renew(event.target.closest("[data-part]"), "show").then(() => document.getElementById(event.target.id)?.focus());
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
  document.getElementById("summary")?.focus();
})();
