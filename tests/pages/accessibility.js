// Asks axe about the whole page, or, if looks are known, about examples of each look that is not.
async ([options, known, examples]) => {
  const layers = new Map(), looks = new Map(), chosen = [];
  const behind = (element) => {
    if (element && !layers.has(element)) {
      const { backgroundColor, backgroundImage, opacity } = getComputedStyle(element);
      const own = [backgroundColor, backgroundImage, opacity].join();
      layers.set(element, behind(element.parentElement) + (own === "rgba(0, 0, 0, 0),none,1" ? "" : own));
    }
    return layers.get(element) ?? "";
  };
  const hasText = (element) => element.matches("input, select, textarea")
    || [...element.childNodes].some((each) => each.nodeType === Node.TEXT_NODE && each.data.trim());
  const isSeen = (element) => {
    const { width, height } = element.getBoundingClientRect();
    return width > 1 && height > 1 && !element.closest("[aria-hidden=true]") && element.checkVisibility({ visibilityProperty: true });
  };
  for (const element of known ? document.body.querySelectorAll("*") : []) {
    if (!hasText(element) || !isSeen(element)) continue;
    const { color, fontSize, fontWeight, textDecorationLine } = getComputedStyle(element);
    // Large text may have less contrast: 18 points, or 14 if it is bold
    const isLarge = parseFloat(fontSize) >= (fontWeight >= 700 ? 14 : 18) / 0.75;
    const around = element.matches("a") ? getComputedStyle(element.parentElement).color : "";
    const look = [color, isLarge, textDecorationLine, around, element.matches(":disabled"), behind(element)].join();
    const count = looks.get(look) ?? 0;
    if (known.includes(look) || count >= examples) continue;
    looks.set(look, count + 1);
    chosen.push(element);
  }
  if (known && !chosen.length) return { found: [], looks: [] };
  const { violations } = await axe.run(known ? { include: chosen } : document, options);
  const found = violations.map(({ id, nodes }) => `${id} ${nodes.slice(0, 3).map((node) => node.target)}`);
  return { found, looks: [...looks.keys()] };
}
