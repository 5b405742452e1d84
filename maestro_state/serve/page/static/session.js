// One session: the conversation as it happens, what is known of it, and what can be done.

import { get, inOrder, paced, pagePath, post, sessionPath } from "./api.js";
import { addContext, drawActions, dropItem, showItem } from "./actions.js";
import "./ask.js";
import { stateChip } from "./chips.js";
import { Conversation } from "./conversation.js";
import { byId, dialog, empty, h, mayChange, problem } from "./dom.js";
import { key, say } from "./frame.js";
import { showOutput } from "./output.js";
import { drawPanels } from "./panels.js";
import { follow, isAfter } from "./stream.js";
import { OPEN, OVER } from "./words.js";

const id = byId("main").dataset.session;
const path = sessionPath(id);
const ask = document.querySelector("ask-box");
let status = null;

const on = {
  cancel: (run) => post(`${path}/runs/${run.id}/cancel`).catch((error) => dialog(`Run ${run.id}`, problem(error))),
  output: (run) => showOutput(id, run, { isOver: !mayChange || OVER.has(status?.session.state), after: read }),
  continue: (run) => ask?.continue(run),
  item: (item) => showItem(id, item),
  drop: (item) => dropItem(id, item, read).catch((error) => dialog(item.id, problem(error))),
  addContext: () => addContext(id, read),
  refresh: () => post(`${path}/refresh`).then(read).catch((error) => dialog("Context", problem(error))),
};
const timeline = `${pagePath(id)}/timeline`;
const conversation = new Conversation(byId("log"), {
  path: timeline, newest: byId("newest"), said: (text) => { byId("said").textContent = text; }, onRun: on,
});

// Asked for by each change, and by who made one: two may be under way at once.
const read = inOrder(() => get(path), (found) => {
  if (byId("main").dataset.gone !== undefined) return; // it was asked for before it was deleted
  status = found;
  byId("state").replaceChildren(stateChip(status.session));
  drawActions(status);
  drawPanels(byId("panels"), status, on);
  ask?.tell(status);
  conversation.tell(status.runs);
});
const readSoon = paced(read, 400);
const QUIET = new Set(["message.added", "run.output", "run.activity"]);

function take(event) {
  byId("log").querySelector(".empty")?.remove();
  conversation.take(event);
  if (!QUIET.has(event.type)) readSoon();
}

async function begin() {
  for (;;) {
    try {
      const [found] = await Promise.all([get(`${timeline}?last=200`).then((told) => {
        conversation.begin(told);
        performance.mark("drawn");
        return told;
      }), read()]);
      if (!found.events.some((event) => event.type === "message.added")) showEmpty();
      return found;
    } catch (error) {
      if (error.status === 404) throw error;
      say("away");
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  }
}

// Somebody deleted it: what was said can still be read here, and nothing can be done with it any more.
function showGone() {
  byId("main").dataset.gone = "";
  byId("state").replaceChildren(h("span", { class: "chip", data: { state: "missing" } }, "deleted"));
  byId("actions").replaceChildren();
  if (ask) ask.hidden = true;
  byId("log").after(problem({ message: "This session was deleted. What was said is shown as long as this page is open." }));
}

// How the line is: whenever it is there again, all that may have changed meanwhile is read.
function tell(line) {
  say(line);
  if (line === "gone") return showGone();
  if (line === "live") ask?.back();
  if (line !== "away") readSoon();
}

// What to type is told where something can be said.
function showEmpty() {
  if (!mayChange || OVER.has(status.session.state)) byId("log").append(empty(OVER.has(status.session.state) ? "Nothing was said" : "Nothing was said yet", ""));
  else byId("log").append(empty("Nothing was said yet", `Write below, or in a terminal: \`maestro --session ${id.split("--").at(-1)} run "why does login fail?"\``));
}

// Where to follow from: the newest that was drawn, or the beginning of a run that goes on, for all that it printed.
function start(cursor) {
  const opened = status.runs.filter((run) => OPEN.has(run.status)).map((run) => `${Date.parse(run.created_at) - 1}-0`);
  return opened.reduce((first, one) => (isAfter(first, one) ? one : first), cursor);
}

// Goes to what the address names: a message or a run.
function reveal() {
  const found = new URLSearchParams(location.hash.slice(1)).get("at");
  if (found) conversation.reveal(found);
}

key("n", "newest message", () => byId("newest").click());
if (ask) key("r", "write to a tool", () => ask.text.focus());
key("c", "context, runs and cost (narrow screens)", () => byId("main").classList.toggle("details"));
// Files change, terminals come and go and times pass without an event.
document.addEventListener("tick", () => { if (status && !OVER.has(status.session.state) && byId("main").dataset.gone === undefined) readSoon(); });

try {
  const { cursor } = await begin();
  reveal();
  addEventListener("hashchange", reveal);
  if (OVER.has(status.session.state)) say("ended");
  else await follow(`${path}/events?from=start`, { from: start(cursor), take, say: tell });
} catch (error) {
  byId("log").replaceChildren(problem(error));
  say("gone");
}
