// Elements from values. What is said is always text: nothing here reads HTML.

const SVG = "http" + "://www.w3.org/2000/svg"; // a name, not an address: nothing is asked of it

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, call] of Object.entries(value)) element.addEventListener(event, call);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (value === true) element.setAttribute(name, "");
    else element.setAttribute(name, value);
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

export function svg(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

// The spot that has the colour of a state.
export function dot() {
  return h("span", { class: "dot", "aria-hidden": "true" });
}

// Whether who looks may change anything; the server refuses them anyway, this only offers nothing in vain.
export const mayChange = document.body.dataset.may !== "read";

export function byId(id) {
  return document.getElementById(id);
}

// Text in which `words` between backquotes are code: what we say ourselves, never what a session holds.
export function prose(text) {
  return text.split("`").map((part, index) => (index % 2 ? h("code", null, part) : part));
}

// Puts elements in a box in place of those it has, unless they say the same; who was on one of them stays there.
export function redraw(box, ...elements) {
  const next = h("div", null, elements);
  const [old, made] = [[...box.childNodes], [...next.childNodes]];
  const news = made.filter((one, index) => !old[index]?.isEqualNode(one));
  if (old.length === made.length && !news.length) return;
  const able = () => [...box.querySelectorAll("button, a, [tabindex]")];
  const focused = able().indexOf(document.activeElement);
  const places = [...box.querySelectorAll(".scrolls")].map((one) => one.scrollLeft);
  if (old.length === made.length) for (const one of news) old[made.indexOf(one)].replaceWith(one);
  else box.replaceChildren(...made);
  box.querySelectorAll(".scrolls").forEach((one, index) => { one.scrollLeft = places[index] ?? 0; });
  if (focused >= 0 && !box.contains(document.activeElement)) able()[focused]?.focus({ preventScroll: true });
}

export function empty(title, text) {
  return h("div", { class: "empty" }, h("b", null, title), h("span", null, prose(text)));
}

export function problem(error) {
  return h("div", { class: "alert", role: "alert" }, error.message, error.hint ? h("small", null, error.hint) : null);
}

// A dialog with a form; `submit` is handed the form's values, and what it throws is shown in the dialog.
export function dialog(title, fields, { action = "OK", danger = false, submit, wide = false, extra = [] } = {}) {
  const problems = h("div");
  const close = () => box.close();
  const go = submit && h("button", { class: danger ? "bad" : "main" }, action);
  const form = h("form", { method: "dialog" }, fields, problems,
    h("div", { class: "buttons" }, extra, h("button", { type: "button", on: { click: close } }, submit ? "Not now" : "Close"), go));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!submit) return close();
    go.disabled = true;
    try {
      await submit(Object.fromEntries(new FormData(form)));
      close();
    } catch (error) {
      problems.replaceChildren(problem(error));
    } finally {
      go.disabled = false;
    }
  });
  const box = h("dialog", { class: wide ? "wide" : null, "aria-label": title }, h("h2", null, title), form);
  box.addEventListener("close", () => {
    box.remove();
    // What opened it may have been drawn anew meanwhile; keys go on in the page, not from its very beginning.
    if (document.activeElement === document.body) byId("main").focus({ preventScroll: true });
  });
  document.body.append(box);
  box.showModal();
  return box;
}

export function field(label, name, props = {}, tag = "input") {
  const id = `field-${name}`;
  return h("div", { class: "field" }, h("label", { for: id }, label), h(tag, { id, name, ...props }));
}

export async function copy(text, button) {
  const label = button.dataset.label ?? button.textContent;
  button.dataset.label = label;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "The browser refuses";
  }
  setTimeout(() => { button.textContent = label; }, 1200);
}
