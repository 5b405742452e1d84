// A run in the conversation: while it goes what it does and prints, afterwards one line that opens.

import { dot, h, mayChange } from "./dom.js";
import { clock, consumed, counted, duration, OPEN, plain } from "./words.js";

const SHOWN = 20000; // characters of output that are shown while it comes: its end
const SIGNS = { tool_call: "⚙", file_change: "✎", retry: "↻", denied: "⛔" };

export function newRun({ ts, type, data }) {
  return { id: data.run, tool: data.tool, status: type === "run.previewed" ? "dry" : "pending", created_at: ts, activity: [], output: "" };
}

// Takes an event of a run; returns whether it has to be drawn again.
export function takeRun(item, { type, ts, data }) {
  const { run } = item;
  if (type === "run.output") {
    // Kept as it came: what a terminal acts on may come in two pieces.
    run.output = (run.output + data.text).slice(-SHOWN * 2);
    run.isPrinting = true;
    item.printed ??= requestAnimationFrame(() => {
      item.printed = null;
      const box = item.element?.querySelector(".printed");
      if (!box) return;
      const isAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
      box.hidden = false;
      box.textContent = shown(run);
      if (isAtEnd) box.scrollTop = box.scrollHeight;
    });
    return false;
  }
  // What is over stays over: its beginning may be read after its end, when somebody scrolls up.
  if (type === "run.claimed" && !run.finished_at) Object.assign(run, { status: "running", started_at: ts });
  else if (type === "run.activity") run.activity.push(data);
  else if (type === "run.cancel_requested") run.isCanceling = true;
  else if (type === "run.finished") Object.assign(run, { status: data.status, finished_at: data.finished_at ?? ts, usage: data.usage, error: data.error, exit_code: data.exit_code });
  return true;
}

function shown(run) {
  return plain(run.output).slice(-SHOWN);
}

export function took(run, now = Date.now()) {
  if (!run.started_at) return "";
  return duration((run.finished_at ? Date.parse(run.finished_at) : now) - Date.parse(run.started_at));
}

export function drawRun(item, on) {
  const { run } = item;
  const isOpen = OPEN.has(run.status);
  const figures = [took(run), consumed(run.usage)].filter(Boolean).join(" · ");
  const line = [h("span", { class: "chip", data: { state: run.status } }, dot(), run.isCanceling && isOpen ? "canceling" : run.status),
    h("b", { data: { tool: run.tool }, class: "tool", title: run.tool }, run.tool), h("span", { class: "soft small" }, `run ${run.id}`),
    h("span", { class: "soft small number took" }, figures)];
  const printed = h("pre", { class: "printed", tabindex: 0, dir: "auto", "aria-label": `Output of run ${run.id}`, hidden: !run.output }, shown(run));
  const buttons = h("div", { class: "buttons" },
    isOpen && mayChange ? h("button", { type: "button", class: "bad", disabled: run.isCanceling, on: { click: () => on.cancel(run) } }, "Cancel run") : null,
    isOpen || run.status === "dry" ? null : h("button", { type: "button", on: { click: () => on.output(run) } }, "Output…"),
    isOpen || run.status === "dry" || !mayChange ? null : h("button", { type: "button", class: "goes-on", on: { click: () => on.continue(run) } }, "Continue"));
  const inside = [run.error ? h("p", { class: "alert" }, plain(run.error)) : null, run.warning ? h("p", { class: "soft small" }, plain(run.warning)) : null, activity(run), isOpen ? printed : null, buttons];
  const props = { class: "run", tabindex: -1, data: { step: "", run: run.id, tool: run.tool }, "aria-label": `Run ${run.id}, ${run.tool}, ${run.status}` };
  if (isOpen) return h("section", props, h("header", null, line, h("time", null, clock(run.created_at))), inside);
  const details = h("details", { open: item.element?.querySelector("details")?.open ?? item.isOpen ?? run.status === "error", on: { toggle: () => { item.isOpen = details.open; } } }, h("summary", null, line, run.activity.length ? h("span", { class: "soft small" }, counted(run.activity.length, "step")) : null), inside);
  return h("section", props, details);
}

// How long runs go that are not over is told again every second.
export function tick(items) {
  for (const item of items) {
    if (item.element && OPEN.has(item.run.status)) item.element.querySelector(".took").textContent = took(item.run);
  }
}

function activity(run) {
  if (!run.activity.length) return null;
  const isOpen = OPEN.has(run.status);
  const shown = isOpen ? run.activity.slice(-6) : run.activity.slice(-200);
  const left = run.activity.length - shown.length;
  return h("ol", { class: "activity", "aria-label": "What the agent did" }, left ? h("li", { class: "soft" }, `${left} before`) : null,
    shown.map((one) => h("li", null, h("span", { "aria-hidden": "true" }, SIGNS[one.kind] ?? "·"), " ", h("b", null, plain(one.name ?? "")), " ", h("code", { dir: "auto" }, plain(one.summary ?? "").slice(0, 300)))));
}
