// What runs consumed: by day as a plot along the time, by tool, model and user as bars.

import { get, inOrder, paced } from "./api.js";
import { byId, empty, h, problem, redraw } from "./dom.js";
import { say } from "./frame.js";
import { bars, dollars, ranked } from "./plots.js";
import { followAll } from "./stream.js";
import { count, counted, money, plain } from "./words.js";

const SPANS = [["7d", "7 days", 7], ["30d", "30 days", 30], ["90d", "90 days", 90], ["", "all", 0]];
const DAYS = 400; // that are drawn at most: the last ones
// A day by its month's name: 11/12 is a day of another month where the reader comes from elsewhere.
const named = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
let span = "30d";
let isDue = false; // what is shown is no more than that something went wrong, or of a day that is over
let shownOn = "";

function readSpan() {
  const since = span ? `&since=${span}` : "";
  return Promise.all(["day", "tool", "model", "user"].map((by) => get(`/v1/usage?by=${by}${since}`)));
}

const read = inOrder(readSpan, draw);

function draw([day, tool, model, user]) {
  isDue = false;
  shownOn = keyOf(new Date());
  const { total } = day;
  byId("sums").replaceChildren(h("b", null, money(total.cost)), ` · ${counted(total.runs, "run")} · ${count(total.tokens_input)} → ${count(total.tokens_output)} tokens`,
    total.runs_without_cost ? ` · ${counted(total.runs_without_cost, "run")} without a cost told` : "");
  const spans = h("div", { class: "chips", role: "group", "aria-label": "Time" }, SPANS.map(([value, name]) =>
    h("button", { type: "button", "aria-pressed": String(value === span), on: { click: () => { span = value; read().catch(fail); } } }, name)));
  const box = byId("content");
  box.setAttribute("aria-busy", "false");
  if (!total.runs) return redraw(box, spans, empty("No runs in this time", "Ask a tool: `maestro run \"why does login fail?\"`"));
  const days = filled(day.rows);
  // A plot is as wide as its card: what is written in it is not to shrink on a phone.
  const width = innerWidth < 832 ? 340 : 560;
  const label = (key) => named.format(new Date(`${key}T12:00:00`));
  const costs = days.map((row) => ({ label: label(row.key), title: `${row.key}: ${money(row.cost)}, ${counted(row.runs, "run")}`, values: [row.cost] }));
  const tokens = days.map((row) => ({ label: label(row.key), title: `${row.key}: ${count(row.tokens_input)} → ${count(row.tokens_output)}`, values: [row.tokens_input, row.tokens_output] }));
  redraw(box, spans, h("div", { class: "cards" },
    card("Cost by day", bars("Cost by day", costs, [{ name: `cost ${money(total.cost)}`, class: "c" }], dollars, { width, height: 176 })),
    card("Tokens by day", bars("Tokens by day", tokens, [{ name: `in ${count(total.tokens_input)}`, class: "a" }, { name: `out ${count(total.tokens_output)}`, class: "b" }], count, { width, height: 176 })),
    ...[["By tool", tool], ["By model", model], ["By user", user]].map(([title, report]) => third(title, ranked(report.rows.slice(0, 12).map((row) => ({
      label: plain(row.key), tool: title === "By tool" ? row.key : null, value: total.cost ? row.cost : row.tokens_input + row.tokens_output, row })),
      ({ row }) => [h("span", { class: "soft number" }, [row.tokens_input + row.tokens_output ? `${count(row.tokens_input + row.tokens_output)} tokens` : "", counted(row.runs, "run")].filter(Boolean).join(" · ")),
        h("b", { class: "number", title: row.runs_without_cost ? `${counted(row.runs_without_cost, "run")} did not tell the cost` : null }, cost(row))])))));
}

// A tool that does not tell its cost did not cost nothing.
function cost(row) {
  return row.runs_without_cost === row.runs ? "—" : money(row.cost);
}

// Days on which nothing ran are days too: the axis is the time that was chosen.
function filled(rows) {
  const known = new Map(rows.map((row) => [row.key, row]));
  const found = [];
  const [, , length] = SPANS.find(([value]) => value === span);
  const today = keyOf(new Date());
  const last = rows.at(-1).key > today ? rows.at(-1).key : today;
  const at = new Date(`${last}T12:00:00`);
  at.setDate(at.getDate() - (length || DAYS) + 1);
  const first = new Date(`${rows[0].key}T12:00:00`);
  if (length ? first < at : first > at) at.setTime(first.getTime());
  for (let day = 0; day < DAYS; day += 1) {
    const key = keyOf(at);
    found.push(known.get(key) ?? { key, cost: 0, tokens_input: 0, tokens_output: 0, runs: 0 });
    if (key >= last) break;
    at.setDate(at.getDate() + 1);
  }
  return found;
}

function keyOf(day) {
  return `${day.getFullYear()}-${String(day.getMonth() + 1).padStart(2, "0")}-${String(day.getDate()).padStart(2, "0")}`;
}

const third = (title, content) => card(title, content, "card third");

function card(title, content, kind = "card") {
  return h("section", { class: kind }, h("h2", null, h("span", null, title)), content);
}

function fail(error) {
  isDue = true;
  byId("content").replaceChildren(problem(error));
}

const again = paced(() => read().catch(fail), 5000);
// Adding up reads much: without a change it is done again only where what is shown cannot be right any more.
document.addEventListener("tick", () => { if (isDue || shownOn !== keyOf(new Date())) again(); });
followAll(again, say);
