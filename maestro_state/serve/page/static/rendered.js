// The one place where text becomes HTML. The server made it of text, by libraries that are kept, and washed it; here it
// is read without being run, and what is not on the list is taken out once more.

import { query } from "./api.js";
import { copy, h } from "./dom.js";

const TAGS = new Set(("A BLOCKQUOTE BR CODE DEL EM H1 H2 H3 H4 H5 H6 HR LI OL P PRE S SPAN STRONG TABLE TBODY TD TH THEAD TR UL").split(" "));
const ATTRIBUTES = new Set(["class", "href", "title", "rel", "target", "start"]);
const trusted = globalThis.trustedTypes?.createPolicy("maestro", { createHTML: (html) => html }) ?? { createHTML: (html) => html };

export function nodesOf(html) {
  const { body } = new DOMParser().parseFromString(trusted.createHTML(html), "text/html");
  for (const element of body.querySelectorAll("*")) {
    if (!TAGS.has(element.tagName)) element.replaceWith(element.textContent);
    for (const { name } of [...element.attributes]) if (!ATTRIBUTES.has(name)) element.removeAttribute(name);
    if (element.hasAttribute("href") && !/^(https?:|mailto:)/i.test(element.getAttribute("href"))) element.removeAttribute("href");
  }
  for (const block of body.querySelectorAll("pre")) {
    const box = h("div", { class: "code" });
    block.replaceWith(box);
    block.tabIndex = 0;
    const language = [...(block.firstElementChild?.classList ?? [])].find((name) => name.startsWith("language-"))?.slice(9);
    box.append(h("div", { class: "bar" }, h("span", null, language ?? ""),
      h("button", { type: "button", class: "quiet", on: { click: (event) => copy(block.textContent, event.target) } }, "Copy")), block);
  }
  for (const table of body.querySelectorAll("table")) {
    const box = h("div", { class: "scrolls", tabindex: 0 });
    table.replaceWith(box);
    box.append(table);
  }
  return [...body.childNodes];
}

const MOST = 24;

// Asks for texts as HTML, those that come together in one request.
export class Rendering {
  #waiting = new Map();
  #timer = 0;

  ask(text, done) {
    const calls = this.#waiting.get(text) ?? [];
    calls.push(done);
    this.#waiting.set(text, calls);
    this.#timer ||= setTimeout(() => this.#send(), 16);
  }

  async #send() {
    const some = [...this.#waiting].slice(0, MOST);
    for (const [text] of some) this.#waiting.delete(text);
    try {
      const { html } = await query("/render", { texts: some.map(([text]) => text) });
      some.forEach(([, calls], index) => calls.forEach((done) => done(html[index])));
    } catch {
      // It stays text, as it is; who scrolls by again asks again.
    }
    this.#timer = this.#waiting.size ? setTimeout(() => this.#send(), 0) : 0;
  }
}
