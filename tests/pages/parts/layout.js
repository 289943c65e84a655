// What is wrong in the layout of a page on a phone: what is wider than the page, targets that are too small, tables
// that are no cards.
() => {
  const TARGET = 44;
  const shown = (element) => {
    const box = element.getBoundingClientRect();
    return element.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true }) && box.width > 1 && box.height > 1;
  };
  const name = (element) => `${element.tagName.toLowerCase()}.${element.className} "${(element.getAttribute("aria-label") || element.textContent || element.name || "").trim().slice(0, 40)}"`;
  const found = [];
  const wide = document.documentElement.scrollWidth;
  if (wide > innerWidth) {
    const widest = [...document.querySelectorAll("main *")].filter((each) => each.getBoundingClientRect().right > innerWidth + 1 && !each.closest("pre, .foreign, .answer, .diff, ul"));
    found.push(`the page is ${wide} wide: ${widest.slice(0, 2).map(name)}`);
  }

  // A link within a sentence is as high as its line.
  const isInText = (element) => {
    if (getComputedStyle(element).display !== "inline" || element.closest("thead, nav")) return false;
    let block = element.parentElement;
    while (getComputedStyle(block).display === "inline") block = block.parentElement;
    const words = [...block.childNodes].filter((each) => !each.contains(element)).map((each) => each.textContent).join(" ");
    return Boolean(block.closest(".answer, .said, p, li, dd, blockquote, figcaption, caption")) && /\p{L}{2}/u.test(words);
  };
  const controls = "a[href], button, input:not([type=hidden]), select, textarea, summary";
  for (const element of document.querySelectorAll(controls)) {
    if (!shown(element) || element.matches(".skip") || element.closest("svg") || isInText(element)) continue;
    const target = element.matches("[type=checkbox], [type=radio]") ? element.closest("label") ?? element : element;
    // A pseudo-element can extend a target over its row
    const cover = getComputedStyle(element, "::after");
    const isExtended = cover.content !== "none" && cover.position === "absolute" && cover.inset === "0px";
    const box = (isExtended ? target.offsetParent : target).getBoundingClientRect();
    if (box.width < TARGET - 0.5 || box.height < TARGET - 0.5) found.push(`${Math.round(box.width)} x ${Math.round(box.height)}: ${name(element)}`);
  }

  // Cards: each row stands alone, and each cell names its column.
  for (const table of document.querySelectorAll("main .table > table")) {
    if (!shown(table)) continue;
    const told = table.closest("[aria-label]")?.getAttribute("aria-label");
    if (table.parentElement.scrollWidth > table.parentElement.clientWidth + 1) found.push(`the table ${told} scrolls`);
    for (const row of table.querySelectorAll("tbody > tr")) {
      if (getComputedStyle(row).display.startsWith("table")) { found.push(`the rows of ${told} are no cards`); break; }
      const bare = [...row.querySelectorAll(":scope > td")].filter((cell) => shown(cell) && !cell.dataset.label && cell.colSpan === 1 && !cell.matches(".mark, .act") && cell.textContent.trim());
      if (bare.length) { found.push(`a cell of ${told} does not name its column: ${name(bare[0])}`); break; }
    }
  }
  for (const table of document.querySelectorAll("main table")) if (!table.closest(".table, .diff")) found.push(`a table without its frame: ${name(table)}`);
  for (const list of document.querySelectorAll(".top nav ul, .tabs ul")) {
    if (list.scrollWidth > list.clientWidth + 1 && getComputedStyle(list).maskImage === "none") found.push("a navigation scrolls, and does not show it");
    const [here, frame] = [list.querySelector("[aria-current]")?.getBoundingClientRect(), list.getBoundingClientRect()];
    if (here && (here.left < frame.left - 1 || here.right > frame.right + 1)) found.push("a navigation does not show the current page");
  }
  if ([...document.querySelectorAll("main kbd, main .keys, footer kbd, footer .keys")].some(shown)) found.push("key hints are shown");
  return [...new Set(found)];
}
