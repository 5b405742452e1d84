// All sessions: live ones first, as they change; filtered and searched while one types.

import { debounce, get, paced, pagePath, post } from "./api.js";
import { byId, dialog, empty, field, h, problem, redraw } from "./dom.js";
import { key, say } from "./frame.js";
import { stateChip } from "./chips.js";
import { spark } from "./plots.js";
import { signIn } from "./signin.js";
import { followAll } from "./stream.js";
import { ago, before, count, counted, MEANINGS, money, OVER, plain } from "./words.js";

const MOST = 200; // rows that are drawn
const ASKED = 80; // characters of a prompt that the list has at most
const list = byId("sessions");
const search = byId("search");
const rows = new Map(); // id → { session, text, element }
const shown = new Set();
let gone = new Set(); // ids of rows whose sessions are no more: nobody took them out of the list yet
let costToday = money(0);
let isKnown = false;
let changed = new Set(); // ids that the stream told of since the list was last asked for
let isDue = false;

// Many sessions may change at once: the list is drawn once for all that came before the next frame.
function drawSoon() {
  if (isDue) return;
  isDue = true;
  const go = () => { isDue = false; draw(); };
  if (document.hidden) setTimeout(go, 1000);
  else requestAnimationFrame(go);
}

function isArchived(session) {
  return session?.archived === true;
}

function isLive({ session }) {
  return !isArchived(session) && !OVER.has(session.state) && session.status !== "expired";
}

// The tool that was chosen; where none was, the one that was asked last: agents that are recorded choose none.
function toolOf({ tool_active: chosen, asked_tool: asked }) {
  return chosen ?? asked;
}

function matches({ session }) {
  if (shown.size && !shown.has(session.state)) return false;
  const text = [session.id, session.user_id, session.state, MEANINGS[session.state], toolOf(session)].join(" ").toLowerCase();
  return search.value.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

// Times compare as they are; the alphabet's order would take most of the time that thousands of rows do.
function newer(one, other) {
  return (other > one) - (other < one);
}

function draw() {
  if (!isKnown) return; // somebody types already: nothing is said of what was not read yet
  const wanted = [...rows.values()].filter(matches).sort((a, b) => isLive(b) - isLive(a)
    || (b.session.state === "executando") - (a.session.state === "executando") || newer(a.session.updated_at, b.session.updated_at));
  const drawn = wanted.slice(0, MOST);
  for (const row of drawn) {
    row.element ??= drawRow(row);
    row.isNew = false; // told once: it is drawn again every quarter of a minute
  }
  const firstOver = drawn.findIndex((row) => !isLive(row));
  const elements = drawn.map((row) => row.element);
  if (firstOver > 0) elements.splice(firstOver, 0, h("li", { class: "divider" }, "Ended and archived"));
  if (wanted.length > MOST) elements.push(h("li", { class: "divider" }, `${wanted.length - MOST} more: type to find them`));
  // A row may be another element now: who was on it stays on the same session.
  const focused = list.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
  list.replaceChildren(...elements);
  if (focused) [...list.querySelectorAll(".name")].find((one) => one.getAttribute("href") === focused)?.focus({ preventScroll: true });
  list.hidden = !elements.length;
  if (list.nextElementSibling.matches(".empty, .alert")) list.nextElementSibling.remove();
  if (!elements.length) list.after(rows.size ? empty("No session has this name, state, tool or user", "What was said in all sessions is searched too, from three characters on.") : empty("No sessions yet", "In a terminal: `maestro session start fix-login`"));
  drawSums();
}

function drawSums() {
  const live = [...rows.values()].filter(isLive);
  const running = live.filter((row) => row.session.state === "executando").length;
  byId("sums").replaceChildren(h("b", null, String(live.length)), " live · ", h("b", null, String(running)), " running · ", h("b", null, costToday), " today");
  const states = Object.entries(MEANINGS).filter(([state]) => shown.has(state) || [...rows.values()].some((row) => row.session.state === state));
  redraw(byId("states"), states.map(([state, meaning]) =>
    h("button", { type: "button", title: state, "aria-pressed": String(shown.has(state)), on: { click: () => choose(state) } }, meaning)));
}

function choose(state) {
  if (!shown.delete(state)) shown.add(state);
  draw();
}

function drawRow({ session, isNew }) {
  const tail = session.id.slice(session.slug.length);
  const isOpen = isLive({ session });
  const tool = toolOf(session);
  return h("li", { class: `row${isOpen ? "" : " over"}${isNew ? " news" : ""}` },
    h("div", { class: "title" }, h("a", { class: "name", href: pagePath(session.id), data: { step: "" } }, h("span", null, session.slug), h("small", null, tail)),
      h("div", { class: "said", dir: "auto" }, session.asked ? beginning(session.asked) : gist(session))),
    stateChip(session),
    h("span", { class: "toolcell" }, tool ? h("span", { class: "chip", title: tool, data: { tool } }, tool) : null),
    h("span", { class: "user" }, session.user_id ?? ""),
    h("span", { class: "plot-of-row" }, isOpen && session.activity ? spark(session.activity) : null),
    h("span", { class: "number today", title: gist(session) }, session.cost_today ? h("b", null, money(session.cost_today)) : ""),
    h("time", { datetime: session.updated_at, title: session.updated_at }, ago(session.updated_at)));
}

// Of a prompt the list has the first line, and of a long one its beginning.
function beginning(asked) {
  return asked.length < ASKED ? plain(asked) : `${plain(asked)}…`;
}

function gist(session) {
  const parts = [session.runs ? counted(session.runs, "run") : "", session.runs_open ? `${session.runs_open} open` : "",
    session.tokens_today ? `${count(session.tokens_today)} tokens today` : "", session.active ? "active here" : "", session.bound ? `of ${session.bound.framework ?? "a framework"}` : ""];
  return parts.filter(Boolean).join(" · ") || `started ${before(session.created_at)}`;
}

// Keeps a row; one that says nothing new keeps its element too.
function put(session, isNew = false) {
  const known = rows.get(session.id);
  const text = JSON.stringify(session);
  if (known?.text === text) return;
  rows.set(session.id, { session, text, isNew });
}

// The live sessions with all their figures in one document; those on disk as rows of the list.
async function readLive() {
  const { sessions, gone: ids, cost_today: cost, total } = await get("/v1/overview?limit=200");
  gone = new Set(ids);
  for (const id of gone) if (!isArchived(rows.get(id)?.session)) rows.delete(id);
  for (const session of sessions) put(session);
  // The newest have all of today's cost, unless even the oldest of them was active today.
  const isPart = total > sessions.length && new Date(sessions.at(-1)?.updated_at).toDateString() === new Date().toDateString();
  costToday = `${money(cost)}${isPart ? " or more" : ""}`;
  isKnown = true;
  draw();
}

async function readAll() {
  await readLive();
  performance.mark("drawn");
  changed = new Set();
  const { sessions } = await get("/v1/sessions");
  const ids = new Set(sessions.map((session) => session.id));
  // What the stream told meanwhile is newer than the list.
  for (const id of rows.keys()) if (!ids.has(id) && !changed.has(id)) rows.delete(id);
  for (const session of sessions) if (!changed.has(session.id) && (isArchived(session) || !gone.has(session.id)) && (!rows.get(session.id)?.session.activity || OVER.has(session.state))) put(session);
  draw();
}
// What was shown stays; where nothing was yet, it is said why.
function fail(error) {
  if (!isKnown && !list.nextElementSibling.matches(".alert")) list.after(problem(error));
}
const liveSoon = paced(readLive, 1000);

function take({ type, data }) {
  if (!isKnown) return liveSoon(); // the answer that is under way may have been made before
  changed.add(data.id);
  if (type === "session.removed") {
    rows.delete(data.id);
    drawSoon();
  }
  if (type !== "session.changed") return;
  const known = rows.get(data.id)?.session;
  // One that is older than what was read is a change on its way here: the newer one follows it.
  if (known && (data.updated_at < known.updated_at || (known.updated_at === data.updated_at && known.state === data.state))) return;
  put({ ...known, ...data }, true);
  drawSoon();
  liveSoon();
}

function newSession() {
  dialog("New session", [field("Name", "name", { required: true, placeholder: "fix-login", autocomplete: "off" }), field("Note", "note", { autocomplete: "off" })], {
    action: "Start",
    submit: async ({ name, note }) => {
      const made = await post("/v1/sessions", note ? { name, note } : { name });
      location.assign(pagePath(made.id));
    },
  });
}

// What was found is between « and ».
function marked(snippet) {
  return snippet.split(/[«»]/).map((part, index) => (index % 2 ? h("mark", null, part) : part));
}

// Where it was said: a message, or the run that was asked or answered.
function placeOf({ session_id: id, kind, entry }) {
  const isShown = kind === "message" || kind === "prompt" || kind === "output";
  return `${pagePath(id)}${isShown ? `#at=${encodeURIComponent(entry)}` : ""}`;
}

// The address keeps what is searched for: who comes back from a result finds the others again.
function keepSearch() {
  history.replaceState(history.state, "", search.value ? `#q=${encodeURIComponent(search.value)}` : location.pathname);
}

const find = debounce(async () => {
  keepSearch();
  const box = byId("found");
  const wanted = search.value.trim();
  box.hidden = wanted.length < 3;
  if (box.hidden) return;
  try {
    const { results, total } = await get(`/v1/search?limit=30&q=${encodeURIComponent(wanted)}`);
    if (search.value.trim() !== wanted) return;
    box.replaceChildren(h("h2", null, total ? `Found in what was said, asked and answered: ${counted(total, "place")}` : "Nothing that was said, asked or answered has these words"), h("ul", null, results.map((one) => h("li", null,
      h("a", { href: placeOf(one), data: { step: "" } }, one.slug), " ", h("span", { class: "soft small" }, `${one.kind} · ${ago(one.ts)}`), h("div", { class: "small snippet", dir: "auto" }, marked(plain(one.snippet ?? "")))))));
  } catch (error) {
    box.replaceChildren(problem(error));
  }
}, 200);

function begin() {
  search.value = asked.get("q") ?? search.value;
  if (search.value) find();
  search.addEventListener("input", () => { draw(); find(); });
  byId("new")?.addEventListener("click", newSession);
  if (byId("new")) key("n", "new session", newSession);
  document.addEventListener("tick", () => { for (const row of rows.values()) row.element = null; liveSoon(); });
  const again = paced(() => readAll().catch(fail), 1000);
  followAll(again, say, take);
}

// `maestro serve --open` hands a code over, once; the list is shown all the same to who is in already.
const asked = new URLSearchParams(location.hash.slice(1));
const code = asked.get("signin");
if (code) history.replaceState(null, "", "/");
if (!code || await signIn(code)) begin();
