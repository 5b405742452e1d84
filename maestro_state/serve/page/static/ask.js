// Asking from here: choose a tool, write, run; or only say something.

import { get, giveUp, once, sessionPath } from "./api.js";
import { byId, h, problem } from "./dom.js";
import { OVER } from "./words.js";

const MODES = [["", "usual permissions"], ["read", "only read"], ["edit", "edit files"], ["full", "anything"]];
const HINT = matchMedia("(pointer: coarse)").matches ? "Ask a tool…" : "Ask a tool…  Ctrl+Enter runs it";

class AskBox extends HTMLElement {
  // Known before anything was read: somebody may be faster than the server.
  session = byId("main").dataset.session;

  connectedCallback() {
    this.text = h("textarea", { rows: 2, id: "ask", "aria-label": "What to ask", placeholder: HINT });
    this.tool = h("select", { "aria-label": "Tool" });
    this.mode = h("select", { "aria-label": "What it may do" }, MODES.map(([value, name]) => h("option", { value }, name)));
    this.goesOn = h("select", { "aria-label": "Conversation to go on with" }, h("option", { value: "" }, "new conversation"));
    this.problems = h("div");
    this.go = h("button", { type: "button", class: "main", on: { click: () => this.run() } }, "Run");
    this.say = h("button", { type: "button", title: "Add a message; no tool is asked", on: { click: () => this.add() } }, "Say");
    this.append(this.problems, h("div", { class: "box" }, this.text, h("div", { class: "asking" }, this.tool, this.mode, this.goesOn, h("span", { class: "send" }, this.say, this.go))));
    // What somebody began to write is still there after the page was loaded again, or they had to sign in.
    this.text.value = sessionStorage.getItem(this.#draft) ?? "";
    this.text.addEventListener("input", () => {
      sessionStorage.setItem(this.#draft, this.text.value);
      if (!this.text.value) giveUp(sessionPath(this.session));
    });
    this.text.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); this.run(); }
    });
    this.#tools();
  }

  get #draft() { return `maestro.draft ${location.pathname}`; }

  async #tools() {
    try {
      const { tools } = await get("/v1/tools");
      const known = tools.filter((tool) => tool.status !== "missing");
      this.tool.replaceChildren(...(known.length ? known : tools).map((tool) => h("option", { value: tool.name }, tool.name)));
      if (this.wanted) this.#choose(this.wanted);
    } catch (error) {
      this.problems.replaceChildren(problem(error));
    }
  }

  // A session may use a command line, which no list has.
  #choose(tool) {
    if (![...this.tool.options].some((one) => one.value === tool)) this.tool.prepend(h("option", { value: tool }, tool));
    this.tool.value = tool;
  }

  // Tells what the session is, and how far.
  tell({ session, runs }) {
    const isOver = OVER.has(session.state);
    this.hidden = isOver;
    if (!this.wanted && session.tool_active) { this.wanted = session.tool_active; this.#choose(this.wanted); }
    const chosen = this.goesOn.value;
    const done = runs.filter((run) => run.status === "success").slice(-20).reverse();
    this.goesOn.replaceChildren(h("option", { value: "" }, "new conversation"), ...done.map((run) => h("option", { value: run.id }, `continue ${run.id} · ${run.tool}`)));
    this.goesOn.value = done.some((run) => run.id === chosen) ? chosen : "";
  }

  // The line is there again: that it was not is no problem any more, and what could not be sent is still written here.
  back() {
    if (this.isAway) this.problems.replaceChildren();
    this.isAway = false;
  }

  // Prepares to go on with a run's conversation.
  continue(run) {
    this.#choose(run.tool);
    if (![...this.goesOn.options].some((one) => one.value === run.id)) this.goesOn.append(h("option", { value: run.id }, `continue ${run.id} · ${run.tool}`));
    this.goesOn.value = run.id;
    this.text.focus();
  }

  run() {
    const body = { prompt: this.text.value };
    for (const [name, value] of [["tool", this.tool.value], ["mode", this.mode.value], ["continues", this.goesOn.value]]) if (value) body[name] = value;
    return this.#send(`${sessionPath(this.session)}/runs`, body);
  }

  add() {
    return this.#send(`${sessionPath(this.session)}/messages`, { role: "user", content: this.text.value });
  }

  async #send(path, body) {
    if (!this.text.value.trim()) return this.text.focus();
    this.go.disabled = this.say.disabled = true;
    try {
      await once(path, body);
      giveUp(sessionPath(this.session));
      this.text.value = "";
      sessionStorage.removeItem(this.#draft);
      this.problems.replaceChildren();
    } catch (error) {
      this.problems.replaceChildren(problem(error));
      this.isAway = error.code === "away";
    } finally {
      this.go.disabled = this.say.disabled = false;
      this.text.focus();
    }
  }
}
customElements.define("ask-box", AskBox);
