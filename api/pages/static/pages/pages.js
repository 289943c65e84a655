// Comfort beyond links and forms: every page also works without this script.
(() => {
  "use strict";

  // Times: "3 min ago" is updated while the page is open.
  const steps = [[60, 1, "s"], [3600, 60, "min"], [86400, 3600, "h"], [Infinity, 86400, "d"]];
  function since(seconds) {
    const [, unit, name] = steps.find(([limit]) => seconds < limit);
    return `${Math.floor(seconds / unit)} ${name}`;
  }
  function elapsed(seconds) {
    const [minutes, rest] = [Math.floor(seconds / 60), Math.floor(seconds % 60)];
    if (minutes >= 60) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
    return minutes ? `${minutes} min ${rest} s` : `${rest} s`;
  }
  function updateTimes() {
    for (const time of document.querySelectorAll("time[datetime]:not([data-exact])")) {
      const seconds = Math.max(0, (Date.now() - Date.parse(time.dateTime)) / 1000);
      const words = "elapsed" in time.dataset ? elapsed(seconds) : `${since(seconds)} ago`;
      if (time.textContent !== words) time.textContent = words;
    }
  }

  // Live updates: an element with data-live follows that stream of events. The events in data-live-on reload the element
  // (its hx-get, on "news"); answer.draft has the text of an answer that is being generated.
  const streams = new Map();
  function follow(element) {
    const source = new EventSource(element.dataset.live);
    for (const type of element.dataset.liveOn.split(" ")) source.addEventListener(type, (event) => scheduleReload(element, event, source));
    source.addEventListener("answer.draft", (event) => write(JSON.parse(event.data)));
    source.addEventListener("error", () => {
      if (source.readyState === EventSource.CLOSED) reloadLater(element);
      else check();
    });
    return source;
  }
  function scheduleReload(element, event, source) {
    // No event follows the last one: a new connection would only get a 204.
    if (isLast(event)) source.close();
    clearTimeout(element.newsTimer);
    element.newsTimer = setTimeout(() => element.dispatchEvent(new CustomEvent("news")), 60);
  }
  function isLast(event) {
    if (event.type !== "done") return event.type === "evaluated";
    return JSON.parse(event.data).stop_reason !== "answered";
  }
  // The server has rendered the text, and made it harmless, as it does with stored answers (api/pages/jobs/job_drafts.py).
  function write(text) {
    const draft = document.getElementById("draft");
    if (!draft) return;
    draft.dataset.iteration = text.iteration;
    draft.hidden = false;
    draft.innerHTML = text.html;
  }
  // The text of an earlier iteration leaves the place of the next one, which may not have begun yet.
  function clearDraft() {
    const draft = document.getElementById("draft");
    if (!draft || !(Number(draft.dataset.iteration) < Number(draft.parentElement.dataset.iteration))) return;
    draft.textContent = "";
    draft.hidden = true;
  }
  // After a failed reload the old content stays, and the reload is repeated.
  const retryAfterMs = 3000;
  function onAnswer(event) {
    const { status } = event.detail.ctx.response;
    if ((status >= 500 || status === 429) && retryLive(event)) event.preventDefault();
  }
  function retryLive(event) {
    const element = event.target;
    if (!element.dataset?.live) return false;
    reloadLater(element);
    return true;
  }
  // The connection: a live page asks every ten seconds whether the server answers. If it does not, the page says since when
  // its content is old, closes its streams, and asks again after growing waits.
  const health = new URL("../../livez", document.currentScript?.src ?? document.querySelector('script[src*="/pages/pages.js"]').src);
  const checkEveryMs = 10000;
  const answerWithinMs = 4000;
  let asOf = new Date();
  let lostWaitMs = 0;
  let checkTimer;
  let isChecking = false;
  async function check() {
    if (isChecking) return;
    clearTimeout(checkTimer);
    if (!document.hidden && document.querySelector("[data-live]")) {
      isChecking = true;
      const answer = await fetch(health, { cache: "no-store", signal: AbortSignal.timeout(answerWithinMs) }).catch(() => null);
      isChecking = false;
      if (answer) found(); else lose();
    }
    checkTimer = setTimeout(check, lostWaitMs || checkEveryMs);
  }
  function lose() {
    const place = document.getElementById("connection");
    const time = asOf.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
    place.textContent = `The server does not answer. This page is as of ${time}, trying again.`;
    if (!lostWaitMs) announce(place.textContent);
    place.hidden = false;
    lostWaitMs = Math.min(60000, lostWaitMs * 2 || 2000);
    followAll();
  }
  function found() {
    asOf = new Date();
    if (!lostWaitMs) return;
    lostWaitMs = 0;
    document.getElementById("connection").hidden = true;
    announce("The server answers again.");
    onVisibility();
  }

  // Also for a refused stream, which the browser does not open again: the reloaded page shows the reason.
  function reloadLater(element) {
    setTimeout(() => { if (lostWaitMs) return; element.dispatchEvent(new CustomEvent("news")); }, retryAfterMs);
  }
  // Hidden tabs hold no connection: a browser allows six for a server, and people open more tabs.
  function followAll() {
    const wanted = document.hidden || lostWaitMs ? [] : [...document.querySelectorAll("[data-live]")];
    for (const [element, source] of streams) {
      if (wanted.includes(element)) continue;
      source.close();
      streams.delete(element);
    }
    for (const element of wanted) if (!streams.has(element)) streams.set(element, follow(element));
  }
  function onVisibility() {
    if (lostWaitMs) { check(); return; }
    if (!document.hidden) for (const element of document.querySelectorAll("[data-live]")) element.dispatchEvent(new CustomEvent("news"));
    followAll();
  }

  // A copy button copies the element that it names, else the one behind it. It is shown where copying is possible.
  document.documentElement.classList.toggle("copies", Boolean(navigator.clipboard));
  async function copy(button) {
    const source = document.getElementById(button.dataset.copy) ?? button.nextElementSibling;
    const rows = [...source.querySelectorAll("tr")].map((row) => [...row.cells].map((cell) => cell.textContent).join("\t"));
    await navigator.clipboard.writeText(rows.join("\n") || source.textContent);
    announce("Copied");
    const words = button.textContent;
    button.textContent = "Copied ✓";
    setTimeout(() => { button.textContent = words; }, 1500);
  }
  function announce(words) {
    const announcer = document.getElementById("announcer");
    announcer.textContent = "";
    announcer.textContent = words;
  }

  // Lists: j and k move, Enter opens, x marks. A row that can be moved to has data-row, and its link in a th.
  function move(step) {
    const rows = [...document.querySelectorAll("[data-row]:has(th a)")];
    if (!rows.length) return;
    const at = rows.findIndex((row) => row.getAttribute("aria-selected") === "true");
    const next = rows[Math.min(rows.length - 1, Math.max(0, at + step))];
    for (const row of rows) row.setAttribute("aria-selected", String(row === next));
    next.querySelector("th a").focus();
    next.scrollIntoView({ block: "nearest" });
  }
  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
    const step = { j: 1, k: -1 }[event.key];
    if (step && document.querySelector("[data-row]:has(th a)")) move(step);
    else press(event);
  }
  // A control with data-key is pressed by that key, but not while a reply is awaited that may replace it. A page that
  // reloads itself keeps its controls.
  function press(event) {
    const box = document.querySelector('[data-row][aria-selected="true"] input[type="checkbox"]');
    if (event.key === "x" && box) { box.click(); return; }
    if (document.querySelector(".htmx-request:not([data-live])")) return;
    const control = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (control) { event.preventDefault(); control.click(); }
  }

  // The target of a link is shown although it is in closed details, also in browsers that do not open them.
  function openTarget() {
    const target = document.querySelector(":target");
    for (let each = target?.closest("details"); each; each = each.parentElement.closest("details")) each.open = true;
    target?.scrollIntoView();
  }
  // On paper all details are open. The style sheet says so, too, but not all browsers know its rule.
  const openedForPrint = [];
  function onPrint() {
    for (const each of document.querySelectorAll("details:not([open])")) { each.open = true; openedForPrint.push(each); }
  }
  function afterPrint() {
    for (const each of openedForPrint.splice(0)) each.open = false;
  }

  function onClick(event) {
    const button = event.target.closest("button[data-copy]");
    if (button) copy(button);
  }
  // After a swap that a person asked for, the focus goes to the successor of what they used. Changed states are announced.
  const announced = new Map();
  let lastFocused = null;
  function onSwap(event) {
    refresh();
    clearDraft();
    const title = document.querySelector("[data-title]")?.dataset.title;
    if (title) document.title = title;
    for (const element of document.querySelectorAll("[data-announce]")) {
      const before = announced.get(element.id);
      announced.set(element.id, element.dataset.announce);
      if (before !== undefined && before !== element.dataset.announce) announce(element.dataset.announce);
    }
    if (document.activeElement !== document.body) return;
    const isAsked = event.detail?.ctx?.sourceElement?.dataset?.live === undefined;
    const successor = isAsked ? document.querySelector("[data-successor], #form-errors") : null;
    // A page may have removed what had the focus, such as the button of a job that has ended.
    const hasLeft = lastFocused !== null && !lastFocused.isConnected;
    if (successor) successor.focus();
    else if (hasLeft) document.getElementById("state")?.focus({ preventScroll: true });
  }
  function refresh() {
    updateTimes();
    followAll();
  }

  document.addEventListener("focusin", (event) => { lastFocused = event.target; });
  document.addEventListener("click", onClick);
  document.addEventListener("keydown", onKey);
  document.addEventListener("visibilitychange", onVisibility);
  document.addEventListener("htmx:after:swap", onSwap);
  document.addEventListener("htmx:after:request", onAnswer);
  document.addEventListener("htmx:error", (event) => { retryLive(event); check(); });
  // Details that people have opened stay open when the page reloads itself, and the selected row stays selected.
  window.htmx?.registerExtension("opened", { htmx_before_morph_attr: (_, { attrName }) => attrName !== "open" && attrName !== "aria-selected" });
  window.addEventListener("hashchange", openTarget);
  window.addEventListener("beforeprint", onPrint);
  window.addEventListener("afterprint", afterPrint);
  openTarget();
  window.addEventListener("pagehide", () => { for (const source of streams.values()) source.close(); streams.clear(); });
  setInterval(updateTimes, 1000);
  for (const element of document.querySelectorAll("[data-announce]")) announced.set(element.id, element.dataset.announce);
  // Navigation and tabs that are wider than a phone show where the person is.
  for (const here of document.querySelectorAll(":is(.top, .tabs) ul [aria-current]")) {
    const list = here.closest("ul");
    list.scrollLeft = here.offsetLeft - (list.clientWidth - here.offsetWidth) / 2;
  }
  // A form that was refused is shown again: the focus goes to its first wrong field, unless people already type.
  const refused = document.getElementById("form-errors");
  if (document.activeElement === document.body) (refused?.parentElement.querySelector("[aria-invalid]") ?? refused)?.focus();
  // A reload must not show again what became of a form that was sent before.
  const address = new URL(location.href);
  if (address.searchParams.has("notice")) {
    address.searchParams.delete("notice");
    history.replaceState(history.state, "", address);
  }
  refresh();
  checkTimer = setTimeout(check, checkEveryMs);
})();
