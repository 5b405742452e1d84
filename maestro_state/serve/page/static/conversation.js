// The conversation of a session: messages, runs and what happened between them, drawn as it happens.

import { get } from "./api.js";
import { copy, h } from "./dom.js";
import { nodesOf, Rendering } from "./rendered.js";
import { drawRun, newRun, takeRun, tick } from "./runcard.js";
import { isAfter } from "./stream.js";
import { clock, plain } from "./words.js";
import { ItemWindow } from "./window.js";

const LONG = 40000; // characters of a text of which only the beginning is shown at first
const NOTES = {
  "session.started": (d) => `${d.user ?? "somebody"} started the session`,
  "session.updated": (d) => `${d.field} was set`,
  "session.forked": (d) => `forked from ${d.from}`,
  "session.finalized": (d) => (d.reason === "expired" ? "the session's time was over" : "the session ended"),
  "session.aborted": (d) => `given up: ${d.reason ?? ""}`,
  "context.added": (d) => `context: ${d.kind === "output" ? `output of run ${d.source}` : d.source ?? `a ${d.kind}`} added (${d.item})`,
  "context.removed": (d) => `context: ${d.item} removed`,
  "tool.selected": (d) => `runs use ${d.tool} from now on`,
  "run.requeued": (d) => `run ${d.run}: its worker was lost, it is tried again`,
  "message.retracted": () => "messages were taken back",
  "state.changed": (d) => `the state changed: ${d.keys}`,
  "terminal.attached": (d) => `${d.user} attached (${d.host} ${d.terminal})`,
  "terminal.detached": (d) => `${d.user} detached (${d.host} ${d.terminal})`,
};

export class Conversation {
  #rendering = new Rendering();
  #known = new Set();
  #runs = new Map();
  #isOlder = false;
  #held = null; // a run whose prompt has not come yet: it is shown below it
  #isLoading = false;
  #told = new Map(); // what the session's record says of each run
  cursor = null;

  constructor(box, { path, newest, said, onRun }) {
    Object.assign(this, { path, newest, said, onRun });
    this.window = new ItemWindow(box, (item) => this.#draw(item), () => this.#older(), (isEnd) => this.#atEnd(isEnd));
    this.seen = new IntersectionObserver((entries) => this.#seen(entries), { root: box, rootMargin: "600px" });
    setInterval(() => tick(this.#runs.values()), 1000);
    newest.addEventListener("click", () => { this.window.isAtEnd = true; this.window.toEnd(); this.#atEnd(true); });
  }

  // Draws the end of the conversation at once; returns the newest id that it has.
  begin({ events, cursor, more, user }) {
    this.cursor = cursor;
    this.owner = user;
    this.#isOlder = more;
    this.window.append(this.#items(events));
    this.window.flush();
    return cursor;
  }

  // Takes what happened now.
  take(event) {
    if (event.type !== "run.output" && this.cursor && !isAfter(event.id, this.cursor)) return;
    if (this.#known.has(event.id)) return;
    this.window.append(this.#items([event]));
    if (this.#held) setTimeout(() => this.window.append(this.#release()), 300);
    if (event.type !== "message.added") return;
    this.said(`${this.#who(event.data)}: ${plain(event.data.content).slice(0, 200)}`);
    if (!this.window.isAtEnd) this.newest.hidden = false;
  }

  // Tells what the session's record knows of its runs: those that began before the page looked.
  tell(runs) {
    for (const run of runs) {
      this.#told.set(run.id, run);
      const item = this.#runs.get(run.id);
      const told = JSON.stringify(run);
      if (!item || item.told === told) continue;
      item.told = told;
      Object.assign(item.run, run);
      this.window.redraw(item);
    }
  }

  #items(events) {
    const items = [];
    for (const event of events) {
      // What runs print comes by the stream alone, in its order; its ids, kept, would be most of what a page left open keeps.
      if (event.type !== "run.output") {
        if (this.#known.has(event.id)) continue;
        this.#known.add(event.id);
      }
      const item = this.#item(event);
      if (!item) continue;
      const isPrompt = item.kind === "message" && this.#held && item.event.data.metadata?.run === this.#held.run.id;
      if (isPrompt) items.push(item, ...this.#release());
      else items.push(...this.#release(), item);
      if (item.kind === "run") this.#held = items.pop();
    }
    if (events.length > 1) items.push(...this.#release());
    return items;
  }

  #release() {
    const held = this.#held;
    this.#held = null;
    return held ? [held] : [];
  }

  #item(event) {
    const { type, data } = event;
    if (type === "message.added") return { kind: "message", event, html: event.html ?? null };
    if (type === "message.retracted") this.#retract(data);
    if (type === "run.started" || type === "run.previewed") {
      // Of a run that began on an earlier page what came later is on a page that was read before.
      const item = { kind: "run", event, run: Object.assign(newRun(event), this.#told.get(data.run)) };
      this.#runs.set(data.run, item);
      return item;
    }
    if (type.startsWith("run.") && type !== "run.requeued") {
      const item = this.#runs.get(data.run);
      if (item && takeRun(item, event)) this.window.redraw(item);
      return null;
    }
    return NOTES[type] ? { kind: "note", event } : null;
  }

  #retract(data) {
    for (const item of this.window.items) {
      if (item.kind !== "message") continue;
      const isMeant = data.until ? !isAfter(item.event.id, data.until) : item.event.id === data.message;
      if (!isMeant || item.event.data.retracted_at) continue;
      item.event.data.retracted_at = true;
      this.window.redraw(item);
    }
  }

  // Shows the message or the run of this id, however long ago it was: what search found.
  async reveal(id) {
    const isMeant = ({ kind, event, run }) => event.id === id || (kind === "run" && run.id === id);
    let item = this.window.items.find(isMeant);
    while (!item && await this.#older(1000)) {
      this.window.flush();
      item = this.window.items.find(isMeant);
    }
    if (item) this.window.reveal(item);
  }

  // Reads what was before; returns whether there was something.
  async #older(most = 200) {
    const first = this.window.items[0];
    if (!this.#isOlder || this.#isLoading || !first) return false;
    this.#isLoading = true;
    try {
      const { events, more } = await get(`${this.path}?last=${most}&before=${first.event.id}`);
      this.#isOlder = more;
      this.window.prepend(this.#items(events));
      return true;
    } catch {
      return false; // Asked for again by the next who scrolls there.
    } finally {
      this.#isLoading = false;
    }
  }

  #atEnd(isAtEnd) {
    if (isAtEnd) this.newest.hidden = true;
    else if (this.window.items.length > 4) this.newest.hidden = false;
  }

  #who({ role, user, metadata }) {
    if (role === "assistant") return plain(metadata?.tool ?? user ?? "assistant");
    return plain(user ?? (role === "user" ? this.owner : role));
  }

  #draw(item) {
    if (item.kind === "message") return this.#message(item);
    if (item.kind === "run") return drawRun(item, this.onRun);
    const { event } = item;
    return h("p", { class: "note" }, h("span", { dir: "auto" }, plain(NOTES[event.type](event.data)).slice(0, 300)), " ", h("time", { datetime: event.ts }, clock(event.ts)));
  }

  #message(item) {
    const { data, ts } = item.event;
    const who = this.#who(data);
    const tool = data.metadata?.tool && plain(data.metadata.tool);
    const isTool = data.role === "assistant";
    const text = h("div", { class: "text", dir: "auto" });
    this.#fill(item, text);
    const element = h("article", { class: `message ${data.role}${data.retracted_at ? " retracted" : ""}`, tabindex: -1,
      "aria-label": `${who}, ${clock(ts)}`, data: { step: "", id: item.event.id, ...(isTool && tool ? { tool } : {}) } },
      h("header", null, h("span", { class: "face", "aria-hidden": "true" }, [...who][0]?.toUpperCase() ?? ""),
        h("b", null, who), data.metadata?.run ? h("span", { class: "soft small asks", title: tool }, plain(isTool ? `run ${data.metadata.run}` : `asks ${tool ?? "a tool"}`)) : null,
        data.retracted_at ? h("span", { class: "chip" }, "taken back") : null,
        h("span", { class: "when" },
          h("button", { type: "button", class: "quiet copy", "aria-label": "Copy this message", on: { click: (event) => copy(data.content, event.target) } }, "Copy"),
          h("time", { datetime: ts }, clock(ts)))),
      text, this.#calls(data.tool_calls, "called"), this.#calls(data.tool_results, "answered"));
    if (item.html === null && data.content.length <= LONG) {
      element.item = item;
      this.seen.observe(element);
    }
    return element;
  }

  #fill(item, text) {
    const { content } = item.event.data;
    if (item.html !== null) {
      text.classList.add("prose");
      text.replaceChildren(...nodesOf(item.html));
    } else if (content.length <= LONG) {
      text.textContent = plain(content);
    } else {
      const rest = h("button", { type: "button", on: { click: () => { text.textContent = plain(content); } } }, `Show all ${content.length.toLocaleString()} characters`);
      text.replaceChildren(plain(content.slice(0, LONG / 8)), "…", h("p", null, rest));
    }
  }

  #calls(calls, word) {
    if (!calls?.length) return null;
    return h("details", { class: "calls" }, h("summary", { dir: "auto" }, plain(`${word}: ${calls.map((one) => one?.name ?? one?.function?.name ?? one?.tool ?? one?.id ?? "a tool").join(", ")}`).slice(0, 200)),
      h("pre", { tabindex: 0, dir: "auto" }, plain(JSON.stringify(calls, null, 2)).slice(0, LONG)));
  }

  #seen(entries) {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      this.seen.unobserve(target);
      const { item } = target;
      if (!item || item.html !== null) continue;
      this.#rendering.ask(item.event.data.content, (html) => {
        item.html = html;
        this.window.change(() => { if (item.element) this.#fill(item, item.element.querySelector(".text")); });
      });
    }
  }
}
