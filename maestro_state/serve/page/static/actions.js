// What can be done with a session: fork it, end it, give it up, export it; and its context.

import { get, pagePath, post, remove, sessionPath } from "./api.js";
import { byId, dialog, field, h, mayChange, problem, redraw } from "./dom.js";
import { OPEN, OVER, plain } from "./words.js";

// What the session was when it was last read: buttons that stay as they are do what is right then, not when they were drawn.
let known = null;

export function drawActions(status) {
  known = status;
  const { session } = status;
  const isOver = OVER.has(session.state);
  const button = (name, call, props = {}) => h("button", { type: "button", on: { click: call }, ...props }, name);
  redraw(byId("actions"), [
    button("Details", () => byId("main").classList.toggle("details"), { class: "only-narrow" }),
    mayChange ? button("Fork", () => fork(session)) : null,
    button("Export", () => exportAs(session)),
    ...(isOver || !mayChange ? [] : [button("End", () => end(known)), button("Give up", () => abort(session), { class: "bad" })]),
  ]);
}

function fork(session) {
  dialog(`Fork ${session.slug}`, [h("p", { class: "soft" }, "A new session that has this one's context and conversation."), field("Name", "name", { required: true, value: `${session.slug}-2`, autocomplete: "off" })], {
    action: "Fork",
    submit: async ({ name }) => {
      const made = await post(`${sessionPath(session.id)}/fork`, { name });
      location.assign(pagePath(made.id));
    },
  });
}

function exportAs(session) {
  const path = `${sessionPath(session.id)}/export`;
  const link = (name, form, more = "") => h("a", { class: "button", href: `${path}?format=${form}${more}`, download: "" }, name);
  dialog(`Export ${session.slug}`, [h("p", { class: "soft" }, "The whole history as one file: to read, or for a program."),
    h("p", { class: "chips" }, link("Markdown", "md"), link("JSON", "json"), link("Markdown without secrets", "md", "&redact=true"))]);
}

function end({ session, runs }) {
  const hasOpen = runs.some((run) => OPEN.has(run.status));
  const open = hasOpen ? h("label", null, h("input", { type: "checkbox", name: "cancel" }), " cancel the runs that are open") : null;
  dialog(`End ${session.slug}?`, [h("p", null, "It takes no more changes and is written to the archive."), open], {
    action: "End session", submit: ({ cancel }) => post(`${sessionPath(session.id)}/end`, { cancel: cancel === "on" }),
  });
}

function abort(session) {
  dialog(`Give ${session.slug} up?`, field("Why", "reason", { required: true, autocomplete: "off" }), {
    action: "Give up", danger: true, submit: ({ reason }) => post(`${sessionPath(session.id)}/abort`, { reason }),
  });
}

export function addContext(session, after) {
  dialog("Add context", [field("Files of the project, or a folder", "path", { placeholder: "src/login.py", autocomplete: "off" }), field("or a text", "text", { rows: 5 }, "textarea"), field("Note", "note", { autocomplete: "off" })], {
    action: "Add",
    submit: async ({ path, text, note }) => {
      if (!path && !text) throw new Error("Name a file or a folder, or write a text.");
      const body = path ? { path } : { text };
      await post(`${sessionPath(session)}/context`, note ? { ...body, note } : body);
      await after();
    },
  });
}

export async function showItem(session, item) {
  try {
    const { content } = await get(`${sessionPath(session)}/context/${item.id}`);
    dialog(item.source?.path_rel ?? item.id, h("pre", { class: "lines", tabindex: 0, dir: "auto" }, content === undefined ? "This is no text." : plain(content).slice(0, 200000)), { wide: true });
  } catch (error) {
    dialog(item.id, problem(error));
  }
}

export async function dropItem(session, item, after) {
  await remove(`${sessionPath(session)}/context/${item.id}`);
  await after();
}
