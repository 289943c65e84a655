// Reads a chosen file into the field of the rows, where people see it before they send it.
(() => {
  "use strict";
  const field = document.getElementById("file-field");
  if (!field) return;
  const status = document.getElementById("file-status");
  const rows = document.getElementById("rows");
  const name = document.getElementById("name");
  const bytes = Number(field.dataset.bytes);
  field.hidden = false;

  const refuse = (file, why) => { status.textContent = `${file.name} ${why}: use redraft datasets import FILE, or POST /v1/datasets.`; };
  document.getElementById("file").addEventListener("change", async (event) => {
    const [file] = event.target.files;
    if (!file) return;
    if (file.size > bytes) return refuse(file, "is too large for this form");
    let text;
    try {
      text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    } catch {
      return refuse(file, "is not text in UTF-8");
    }
    // The encoding of forms makes most characters longer
    if (new URLSearchParams({ rows: text }).toString().length > bytes) return refuse(file, "is too large for this form");
    rows.value = text;
    if (!name.value) name.value = file.name;
    status.textContent = `${file.name} is in the field below.`;
  });
})();
