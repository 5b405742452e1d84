// Work sessions as trees, each with what it and all under it cost.

import { get, paced } from "./api.js";
import { byId, dialog, dot, empty, h, problem, redraw } from "./dom.js";
import { say } from "./frame.js";
import { followAll } from "./stream.js";
import { ago, before, count, counted, money, plain } from "./words.js";

const STATES = { running: "running", paused: "warn", completed: "success", failed: "error", interrupted: "canceled" };
const stats = new Map(); // id → { stamp, found }

async function read() {
  const { tree } = await get("/v1/wsessions/tree");
  const box = byId("content");
  box.setAttribute("aria-busy", "false");
  byId("sums").textContent = tree.length ? counted(tree.length, "tree") : "";
  if (!tree.length) return redraw(box, empty("No work sessions yet", "They collect what agents did on one thing: `maestro wsession start task`"));
  redraw(box, h("div", { class: "card tree" }, h("div", { class: "node heads", "aria-hidden": "true" }, h("span", null, "Each with all under it"), ["cost", "tokens", "breadcrumbs"].map((name) => h("span", { class: "number" }, name))), list(tree)));
  for (const node of flat(tree)) if (stats.get(node.session_id)?.stamp !== stampOf(node)) await add(node);
}

function flat(nodes) {
  return nodes.flatMap((node) => [node, ...flat(node.children)]);
}

// Figures are of a work session and all under it: they are as new as the newest of those.
function stampOf(node) {
  const all = flat([node]);
  return `${all.length} ${all.map((one) => one.modified).sort().at(-1)}`;
}

async function add(node) {
  try {
    const found = await get(`/v1/wsessions/${encodeURIComponent(node.session_id)}/stats`);
    stats.set(node.session_id, { stamp: stampOf(node), found });
    document.querySelectorAll("[data-work]").forEach((one) => { if (one.dataset.work === node.session_id) one.replaceWith(figures(node)); });
  } catch { /* without figures it is a tree all the same */ }
}

// What a work session and all under it consumed; three cells, so that numbers of different nodes stand below each other.
function figures(node) {
  const found = stats.get(node.session_id)?.found;
  const tokens = (found?.tokens?.input ?? 0) + (found?.tokens?.output ?? 0);
  const cell = (value, unit) => h("span", { class: "number" }, found ? value : "…", h("span", { class: "unit" }, ` ${unit}`));
  return h("span", { class: "figures3", data: { work: node.session_id } },
    cell(h("b", null, money(found?.cost ?? 0)), "cost"), cell(count(tokens), "tokens"), cell(String(found?.breadcrumbs ?? 0), found?.breadcrumbs === 1 ? "breadcrumb" : "breadcrumbs"));
}

// What it is about, as whoever started it said: by its name or id, else by all that was said (`--entity task=T-17`).
function nameOf({ related_entity: entity, session_type: type }) {
  const said = Object.entries(entity ?? {}).filter(([, value]) => plain(value).trim());
  const all = said.map(([name, value]) => `${name} ${plain(value)}`).join(" · ");
  return (plain(entity?.name ?? entity?.id).trim() || plain(all).trim()).slice(0, 160) || plain(type);
}

function list(nodes) {
  return h("ul", null, nodes.map((node) => h("li", null, h("div", { class: "node" }, h("span", { class: "what" },
    h("button", { type: "button", class: "quiet", data: { step: "" }, on: { click: () => show(node) } }, h("b", null, nameOf(node))),
    h("span", { class: "chip", data: { state: STATES[node.status] ?? node.status } }, dot(), node.status),
    h("span", { class: "soft small" }, `${node.session_type} · ${node.session_id.slice(0, 8)} · ${ago(node.modified)}`)),
    figures(node)), node.children.length ? list(node.children) : null)));
}

async function show(node) {
  try {
    const { events } = await get(`/v1/wsessions/${encodeURIComponent(node.session_id)}/timeline?limit=200`);
    dialog(`${nameOf(node)} · ${node.session_type}`, h("div", { class: "scrolls talk-of", tabindex: 0 }, h("table", { class: "tight" }, h("tbody", null, events.map((event) =>
      h("tr", null, h("td", { class: "soft" }, before(event.ts)), h("td", null, event.type), h("td", { dir: "auto" }, plain(event.summary).slice(0, 300))))))), { wide: true });
  } catch (error) {
    dialog(node.session_type, problem(error));
  }
}

const again = paced(() => read().catch((error) => byId("content").replaceChildren(problem(error))), 3000);
document.addEventListener("tick", again);
followAll(again, say);
