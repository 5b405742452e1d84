// Beside the conversation: what the session is, what it cost, its runs, its context, who looks at it.

import { dot, h, mayChange, redraw } from "./dom.js";
import { bars, dollars } from "./plots.js";
import { took } from "./runcard.js";
import { ago, before, consumed, count, counted, duration, money, OPEN, OVER, plain } from "./words.js";

const LAST = 30; // runs in a plot

// Draws the panels that say something new; who was in one of them stays there.
export function drawPanels(box, status, on) {
  const { session, runs, context, attached } = status;
  const places = [...box.querySelectorAll(".list")].map((list) => list.scrollTop);
  redraw(box, [about(status), cost(runs, widthIn(box)), runList(runs, session, on), contextList(context, session, on), terminals(attached)].filter(Boolean));
  box.querySelectorAll(".list").forEach((list, index) => { list.scrollTop = places[index] ?? 0; });
}

// How long open runs go is told again every second.
setInterval(() => document.querySelectorAll("[data-started]").forEach((one) => { one.textContent = `running · ${took({ started_at: one.dataset.started })}`; }), 1000);

function card(title, aside, ...content) {
  return h("section", { class: "card", "aria-label": title }, h("h2", null, h("span", null, title), aside ? h("span", { class: "soft number" }, aside) : null), content);
}

function about({ session, ttl_left: left, archive_waits: waits }) {
  const rows = [
    ["who", session.user_id], ["tool", session.tool_active], ["folder", session.working_directory], ["task", session.task_id],
    ["forked from", session.forked_from], ["started", before(session.created_at)],
    ["left alone", left === null || left === undefined || OVER.has(session.state) ? "" : `it ends in ${duration(left * 1000)}`],
    ["archive", waits], ["note", session.notes], ["given up", session.abort_reason],
  ].filter(([name, value]) => name && value);
  return h("section", { class: "card", "aria-label": "About" }, h("dl", { class: "facts" }, rows.map(([name, value]) => [h("dt", null, name), h("dd", { dir: "auto" }, plain(String(value)))])));
}

// How wide a plot is in its card: what is written in it is not to shrink. Where the panels are hidden, as wide as usual.
function widthIn(box) {
  return Math.min(340, (box.clientWidth || 406) - 66); // without paddings and borders
}

function cost(runs, width) {
  const told = runs.filter((run) => run.usage).slice(-LAST);
  if (!told.some((run) => consumed(run.usage))) return null; // a run that goes on has told nothing yet
  const sum = (name) => runs.reduce((all, run) => all + (run.usage?.[name] ?? 0), 0);
  const label = (run) => run.id.replace(/^0+(?=\d)/, "");
  const title = (run) => `run ${run.id} · ${run.tool} · ${consumed(run.usage)}`;
  const tokens = told.map((run) => ({ label: label(run), title: title(run), values: [run.usage.tokens_input ?? 0, run.usage.tokens_output ?? 0] }));
  const costs = told.map((run) => ({ label: label(run), title: title(run), values: [run.usage.cost ?? 0] }));
  // A tool that does not tell its cost did not cost nothing.
  const isTold = runs.some((run) => run.usage?.cost !== undefined);
  return card("Cost and tokens by run", isTold ? money(sum("cost")) : null,
    bars("Tokens by run", tokens, [{ name: `tokens in ${count(sum("tokens_input"))}`, class: "a" }, { name: `out ${count(sum("tokens_output"))}`, class: "b" }], count, { width }),
    costs.some((row) => row.values[0]) ? bars("Cost by run", costs, [{ name: `cost ${money(sum("cost"))}`, class: "c" }], dollars, { width, height: 96 }) : null);
}

function runList(runs, session, on) {
  const isOver = OVER.has(session.state) || !mayChange;
  if (!runs.length) return card("Runs", null, h("p", { class: "soft small" }, isOver ? "There were none." : "None yet. Write below, choose a tool, and run it."));
  return card("Runs", counted(runs.length, "run"), h("ol", { class: "list" }, runs.slice(-50).reverse().map((run) => h("li", { data: { state: run.status } },
    h("button", { type: "button", class: "plainrow", title: "Output, and parts of it as context", on: { click: () => on.output(run) } },
      dot(), h("span", { class: "what" }, h("b", { data: { tool: run.tool }, class: "tool" }, run.tool), " ", h("span", { class: "soft" }, plain(run.prompt_preview ?? ""))),
      run.status === "running" && run.started_at ? h("span", { class: "soft number", data: { started: run.started_at } }, "running")
        : h("span", { class: "soft number" }, [run.status === "success" ? "" : run.status, took(run), run.usage?.cost === undefined ? "" : money(run.usage.cost)].filter(Boolean).join(" · "))),
    OPEN.has(run.status) && mayChange ? h("button", { type: "button", class: "quiet bad", "aria-label": `Cancel ${run.tool} run ${run.id}`, on: { click: () => on.cancel(run) } }, "Cancel") : null))));
}

const DRIFT = { same: null, changed: "changed since", missing: "file is gone" };

function contextList(items, session, on) {
  const drifted = items.filter((item) => DRIFT[item.drift]).length;
  const isOpen = !OVER.has(session.state) && mayChange;
  const rows = items.map((item) => {
    const name = item.source?.path_rel ?? item.source?.path ?? (item.source?.run_id ? `output of run ${item.source.run_id}` : item.notes ?? item.kind);
    return h("li", { data: { state: item.drift ?? "same" } },
      h("button", { type: "button", class: "plainrow", on: { click: () => on.item(item) } }, dot(),
        h("span", { class: "what", dir: "auto" }, plain(String(name))), DRIFT[item.drift] ? h("span", { class: "chip", data: { state: item.drift } }, DRIFT[item.drift]) : h("span", { class: "soft" }, item.id)),
      isOpen ? h("button", { type: "button", class: "quiet", "aria-label": `Take ${name} out of the context`, on: { click: () => on.drop(item) } }, "✕") : null);
  });
  return card("Context", drifted ? `${counted(items.length, "item")}, ${drifted} changed` : counted(items.length, "item"),
    items.length ? h("ul", { class: "list" }, rows) : h("p", { class: "soft small" }, isOpen ? "Nothing is sent along yet. Add a file, or lines of an output." : "Nothing was sent along."),
    isOpen ? h("div", { class: "chips after-list" }, h("button", { type: "button", class: "square", on: { click: () => on.addContext() } }, "Add context"),
      items.some((item) => item.drift === "changed") ? h("button", { type: "button", class: "square", title: "Send the files along as they are now", on: { click: () => on.refresh() } }, "Take changed files anew") : null) : null);
}

function terminals(attached) {
  if (!attached.length) return null;
  return card("Attached", String(attached.length), h("ul", { class: "list" }, attached.map((one) =>
    h("li", null, h("span", { class: "what" }, h("b", null, one.user), " ", h("span", { class: "soft" }, `${one.host} ${one.terminal}`)), h("span", { class: "soft number" }, ago(one.since))))));
}
