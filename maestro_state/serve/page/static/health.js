// How the server is: workers and queue, checks with what to do about them, tools.

import { get, paced, post } from "./api.js";
import { byId, dialog, dot, h, mayChange, problem, prose, redraw } from "./dom.js";
import { say } from "./frame.js";
import { followAll } from "./stream.js";
import { before, counted, plain } from "./words.js";

const ASK = "Look which are there";

async function read() {
  const told = await Promise.all(["/v1/doctor", "/v1/workers", "/v1/tools", "/v1/health"].map((path) => get(path).catch((error) => error)));
  const [doctor, workers, tools, health] = told;
  const box = byId("content");
  box.setAttribute("aria-busy", "false");
  const checks = doctor.checks ?? [];
  const bad = checks.filter((one) => one.status !== "ok").length;
  const isPart = told.some((one) => one instanceof Error);
  byId("sums").textContent = [`maestro ${health.version ?? ""}`.trim(), bad ? `${counted(bad, "thing")} to look at` : isPart ? "not all could be asked" : "all is well"].join(" · ");
  redraw(box, h("div", { class: "cards" },
    section("Workers and queue", workers, () => [h("p", { class: "figures" }, figure(workers.listening, workers.listening === 1 ? "worker" : "workers"), figure(workers.waiting, workers.waiting === 1 ? "run waits" : "runs wait")),
      workers.workers.length ? workerList(workers.workers) : null,
      workers.listening ? null : h("p", { class: "soft small fix" }, prose("No worker runs now. A project's own server starts them when there is something to run; for a team's server: `maestro worker`"))]),
    section("Tools", tools, () => [h("div", { class: "scrolls", tabindex: 0 }, h("table", { class: "tight" }, h("tbody", null, tools.tools.map((tool) => h("tr", null, h("td", null, h("b", { class: "chip", data: { tool: tool.name } }, tool.name)),
      h("td", null, tool.status ?? "not asked yet"), h("td", { class: "soft" }, plain(tool.version ?? tool.notes ?? tool.path ?? ""))))))), mayChange ? h("p", { class: "after" }, h("button", { type: "button", on: { click: check } }, ASK)) : null]),
    section("Checks", doctor, () => h("div", { class: "scrolls", tabindex: 0 }, h("table", { class: "tight" }, h("tbody", null, checks.map((one) => h("tr", null,
      h("td", null, h("span", { class: "chip", data: { state: one.status } }, dot(), one.status)), h("td", null, one.name),
      h("td", { class: "soft fix" }, plain(one.detail ?? ""), one.fix && one.status !== "ok" ? h("div", null, h("code", null, one.fix)) : null)))))), true)));
}

// Asks every tool on the machine that serves for its version.
async function check({ target }) {
  target.disabled = true;
  target.textContent = "Asking each tool…";
  try {
    await post("/v1/tools/check");
    await read();
  } catch (error) {
    dialog("Tools", problem(error));
  } finally {
    target.disabled = false;
    target.textContent = ASK;
  }
}

function workerList(workers) {
  return h("ul", { class: "workers", "aria-label": "Workers" }, workers.map((one) => h("li", null,
    h("div", null, h("b", null, plain(one.host)), " ", h("span", { class: "soft small" }, `pid ${one.pid} · started ${before(one.since)}`)),
    h("div", { class: "soft small" }, `${one.runs_now} of ${counted(one.runs_at_once, "run")} now · ${one.runs_done} done`),
    h("div", { class: "chips" }, one.tools.map((tool) => h("span", { class: "chip", data: { tool: tool.name }, title: plain(tool.version) }, plain(tool.name))),
      one.labels.map((label) => h("span", { class: "chip label" }, plain(label)))),
    h("div", { class: "soft small", dir: "auto" }, plain(one.projects.join(", "))))));
}

function figure(number, word) {
  return h("span", null, h("b", null, String(number)), ` ${word}`);
}

function section(title, found, draw, isWide = false) {
  return h("section", { class: `card${isWide ? " wide" : ""}` }, h("h2", null, h("span", null, title)), found instanceof Error ? problem(found) : draw());
}

const again = paced(read, 5000);
document.addEventListener("tick", again);
followAll(again, say);
