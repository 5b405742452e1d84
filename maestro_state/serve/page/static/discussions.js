// Discussions: what was said, and what replaying their final JSON would change.

import { get, paced } from "./api.js";
import { byId, dialog, dot, empty, h, problem, redraw } from "./dom.js";
import { say } from "./frame.js";
import { nodesOf, Rendering } from "./rendered.js";
import { followAll } from "./stream.js";
import { ago, before, counted, plain } from "./words.js";

const rendering = new Rendering();

async function read() {
  const { discussions, damaged = [] } = await get("/v1/discussions?limit=200");
  const box = byId("content");
  box.setAttribute("aria-busy", "false");
  byId("sums").textContent = discussions.length ? counted(discussions.length, "discussion") : "";
  if (!discussions.length && !damaged.length) return redraw(box, empty("No discussions yet", "A conversation that ends with one final JSON: `maestro discuss start`"));
  redraw(box, ...damaged.map((one) => problem({ message: `${one.path}: ${one.reason}`, hint: "maestro discuss migrate" })),
    h("ul", { id: "sessions", "aria-label": "Discussions" }, discussions.map((one) => h("li", { class: "row talkrow" },
      h("div", { class: "title" }, h("a", { class: "name", href: `#${one.session_id}`, data: { step: "" }, on: { click: (event) => { event.preventDefault(); show(one); } } }, h("span", null, plain(`${one.context.kind}${one.context.ref ? ` · ${one.context.ref}` : ""}`)), h("small", null, ` ${one.session_id.slice(0, 8)}`)),
        h("div", { class: "said", dir: "auto" }, plain(one.initial_prompt ?? "").slice(0, 160))),
      h("span", { class: "chip", data: { state: one.status === "open" ? "running" : "success" } }, one.status === "open" ? dot() : null, one.status),
      h("span", { class: "chip" }, one.contract_type), h("span", { class: "user" }, [one.engine, one.model].filter((word) => word && word !== "none" && word !== "default").join(" ")),
      h("span", { class: "soft small" }, one.final_json_present ? "has its final JSON" : ""), h("span"), h("time", { datetime: one.updated_at }, ago(`${one.updated_at}Z`))))));
}

const WHO = { user_message: "said", assistant_message: "answered", final_json: "decided: the final JSON", replay_run: "replayed", error: "went wrong" };

async function show(one) {
  const path = `/v1/discussions/${one.session_id}`;
  try {
    const { events } = await get(path);
    const plan = h("section", { "aria-label": "Replay plan" });
    const said = h("div", { class: "talk-of", tabindex: 0, role: "region", "aria-label": "What was said" }, events.map(saying));
    dialog(plain(`${one.context.kind} ${one.context.ref ?? ""}`).trim(), [said, plan], { wide: true });
    if (one.final_json_present) await replay(one, plan);
  } catch (error) {
    dialog("Discussion", problem(error));
  }
}

function saying({ type, ts, payload }) {
  const text = payload?.content ?? payload?.message ?? payload?.prompt;
  const shown = typeof text === "string" ? text : `\`\`\`json\n${JSON.stringify(payload, null, 2)}\n\`\`\``;
  const box = h("div", { class: "text", dir: "auto" }, plain(shown));
  rendering.ask(shown, (html) => { box.classList.add("prose"); box.replaceChildren(...nodesOf(html)); });
  return h("article", { class: "said-row" }, h("header", { class: "soft small" }, `${payload?.dry_run ? "planned, nothing was changed" : WHO[type] ?? plain(type)} · ${before(`${ts}Z`)}`), box);
}

// What replaying would do. Only looking: no dry run, which a discussion records.
async function replay(one, box) {
  try {
    const found = await get(`/discussions/${one.session_id}/plan`);
    const changes = found.operations.filter((step) => step.changed).length;
    const isFine = found.result === "REPLAY_OK";
    box.replaceChildren(
      h("h3", null, isFine ? `Replay plan: ${counted(found.ops_count, "operation")}, nothing is changed yet` : "Replay plan: it cannot be applied"),
      found.error ? problem({ message: found.error }) : "",
      found.operations.length ? h("ol", { class: "plan" }, found.operations.map(planned)) : "",
      h("p", { class: "soft small fix" }, found.changed_files?.length ? `Writes ${found.changed_files.join(", ")}. ` : "", isFine && changes ? ["To apply it: ", h("code", null, `maestro discuss replay ${one.session_id.slice(0, 8)}`)] : isFine && found.ops_count ? "All of it is there already." : ""));
  } catch (error) {
    box.replaceChildren(problem(error));
  }
}

function planned({ op_type: type, summary, changed, data }) {
  return h("li", { class: changed ? "" : "soft" }, h("span", { class: "chip", data: { state: changed ? "changed" : "same" } }, changed ? "changes" : "there already"),
    h("span", { dir: "auto", title: plain(JSON.stringify(data)).slice(0, 500) }, plain(summary || type).slice(0, 300)));
}

const again = paced(() => read().catch((error) => byId("content").replaceChildren(problem(error))), 3000);
document.addEventListener("tick", again);
followAll(again, say);
