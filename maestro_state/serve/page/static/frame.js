// What every screen has: how the line to the server is, dark or light, and the keys.

import { post, within } from "./api.js";
import { byId, dialog, h } from "./dom.js";

// What is said of the line, and what only a wide screen has room for.
const SAYS = { live: "live", away: ["server away", ", trying again"], ended: "ended", gone: "deleted", "": "connecting" };

class LineState extends HTMLElement {
  #told = "";
  #isAnswered = true;

  connectedCallback() { this.#draw(); }

  // How the stream of events is.
  tell(line) { this.#told = line; this.#draw(); }

  // Whether the server behind it answers: a stream stays open while that one is away.
  answer(isAnswered) { this.#isAnswered = isAnswered; this.#draw(); }

  #draw() {
    const line = this.#isAnswered || this.#told === "ended" || this.#told === "gone" ? this.#told : "away";
    if (this.dataset.line === line && this.textContent) return;
    this.dataset.line = line;
    const [short, more] = [SAYS[line] ?? line].flat();
    this.replaceChildren(short, more ? h("span", null, more) : "");
  }
}
customElements.define("line-state", LineState);

const lineState = document.querySelector("line-state");

export function say(line) {
  lineState.tell(line);
}

const pause = () => new Promise((resolve) => { setTimeout(resolve, 2000); });
// No answer at all is none of the state server's: the stream tells of it. While that one is away every answer takes its
// time, and all pages of a browser wait in line for the few connections that their streams leave: far longer than usual.
const HEALTH_MS = 300000;
const isAway = () => within(HEALTH_MS, (signal) => fetch("/v1/health", { signal })).then((answer) => answer.status === 503, () => false);
let isAsking = false;

// Asks whether the state server is there, and goes on asking until it is: then everything is read again.
async function ping() {
  if (isAsking) return;
  isAsking = true;
  let wasAway = false;
  while (await isAway()) {
    wasAway = true;
    lineState.answer(false);
    await pause();
  }
  isAsking = false;
  lineState.answer(true);
  if (wasAway) document.dispatchEvent(new Event("tick"));
}

const SCREENS = { s: "/", w: "/work", d: "/discussions", u: "/usage", h: "/health" };
const KEYS = [
  ["?", "these keys"], ["/", "filter and search, or write to a tool"], ["j k", "next, previous"], ["Enter", "open"],
  ["Esc", "out of a field or a dialog"], ["g s", "sessions"], ["g w", "work"], ["g d", "discussions"],
  ["g u", "usage"], ["g h", "health"], ["t", "dark or light"],
];
const more = [];
const actions = new Map();
let isGoing = false;

// Lets a screen have a key of its own.
export function key(name, meaning, call) {
  more.push([name, meaning]);
  actions.set(name, call);
}

function toggleTheme() {
  const root = document.documentElement;
  const isDark = getComputedStyle(root).colorScheme === "dark"
    || (root.dataset.theme === undefined && matchMedia("(prefers-color-scheme: dark)").matches);
  root.dataset.theme = isDark ? "light" : "dark";
  localStorage.setItem("maestro.theme", root.dataset.theme);
}

function showHelp() {
  if (document.querySelector("dialog[open]")) return;
  dialog("Keys", h("dl", null, [...KEYS, ...more].map(([name, meaning]) =>
    [h("dt", null, name.split(" ").map((one) => [h("kbd", null, one), " "])), h("dd", null, meaning)])));
}

// Moves along what can be moved along: rows of a list, messages of a conversation.
function step(by) {
  const all = [...document.querySelectorAll("[data-step]")].filter((one) => one.offsetParent !== null);
  if (!all.length) return;
  const at = all.indexOf(document.activeElement.closest("[data-step]"));
  const isLog = all[0].closest("[role=log]");
  const start = at < 0 && isLog ? all.length : at;
  const next = all[Math.max(0, Math.min(all.length - 1, at < 0 && !isLog ? 0 : start + by))];
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  const isField = event.target.closest("input, textarea, select, [contenteditable]");
  if (event.key === "Escape" && isField && !event.target.closest("dialog")) {
    event.target.blur();
    byId("main").focus();
    return;
  }
  if (isField || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const pressed = event.key;
  if (isGoing) {
    isGoing = false;
    if (SCREENS[pressed]) location.assign(SCREENS[pressed]);
    return;
  }
  const call = actions.get(pressed) ?? { j: () => step(1), k: () => step(-1), "?": showHelp, t: toggleTheme,
    g: () => { isGoing = true; }, "/": () => document.querySelector("[type=search], ask-box textarea")?.focus() }[pressed];
  if (!call) return;
  event.preventDefault();
  call();
});

// On a phone the screens are a row that scrolls: the one that is shown is in sight.
document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
byId("theme")?.addEventListener("click", toggleTheme);
byId("help")?.addEventListener("click", showHelp);
byId("signout")?.addEventListener("click", async () => {
  await post("/v1/signout").catch(() => {});
  location.assign("/");
});

// Times that tell how long ago something was are told again now and then.
setInterval(() => document.dispatchEvent(new Event("tick")), 15000);
// What could not be shown while the state server was away is asked for again.
if (byId("main").dataset.away !== undefined) pause().then(ping).then(() => location.reload());
else if (lineState) document.addEventListener("tick", ping);
