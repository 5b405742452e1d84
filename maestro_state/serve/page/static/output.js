// What a run printed, line by line, and the lines of it that become context.

import { get, once, sessionPath } from "./api.js";
import { copy, dialog, field, h, problem } from "./dom.js";
import { plain } from "./words.js";

const MOST = 5000; // lines that are shown

export async function showOutput(session, run, { isOver, after }) {
  let output;
  try {
    ({ output } = await get(`${sessionPath(session)}/runs/${run.id}/output`));
  } catch (error) {
    return dialog(`Run ${run.id}`, problem(error));
  }
  if (!output) return dialog(`Run ${run.id} · ${run.tool}`, h("p", null, output === null ? "Cleanup removed what it printed." : "It printed nothing."));
  const lines = output.replace(/\n$/, "").split("\n");
  const from = field("From line", "from", { type: "number", min: 1, max: lines.length, value: 1 });
  const to = field("to line", "to", { type: "number", min: 1, max: lines.length, value: lines.length });
  const note = field("Why it matters (a note)", "note", { autocomplete: "off" });
  const [first, last] = [from.lastChild, to.lastChild];
  const list = h("ol", { class: "lines", tabindex: 0, "aria-label": "Output" }, lines.slice(0, MOST).map((line) => h("li", { dir: "auto" }, plain(line) || " ")));
  if (lines.length > MOST) list.append(h("li", null, `… and ${lines.length - MOST} more lines`));
  const mark = () => [...list.children].forEach((row, index) => row.classList.toggle("chosen", index + 1 >= first.value && index + 1 <= last.value && !(Number(first.value) === 1 && Number(last.value) === lines.length)));
  let anchor = 1;
  // With the Shift key held, lines are meant, not the text between two clicks.
  list.addEventListener("mousedown", (event) => { if (event.shiftKey) event.preventDefault(); });
  const lineOf = (node) => [...list.children].indexOf((node?.nodeType === Node.ELEMENT_NODE ? node : node?.parentElement)?.closest("li")) + 1;
  list.addEventListener("click", (event) => {
    const at = lineOf(event.target);
    const dragged = getSelection();
    const ends = [lineOf(dragged.anchorNode), lineOf(dragged.focusNode)];
    const isDragged = !dragged.isCollapsed && ends[0] && ends[1];
    if (!at && !isDragged) return;
    if (!event.shiftKey) anchor = isDragged ? ends[0] : at;
    const other = isDragged ? ends[1] : at;
    [first.value, last.value] = [Math.min(anchor, other), Math.max(anchor, other)];
    dragged.removeAllRanges();
    mark();
  });
  for (const one of [first, last]) one.addEventListener("input", mark);
  const copying = h("button", { type: "button", on: { click: (event) => copy(chosen().join("\n"), event.target) } }, "Copy");
  const chosen = () => lines.slice(first.value - 1, last.value);
  const fields = [list, isOver ? null : h("div", { class: "choose" }, from, to, note, h("p", { class: "soft small" }, "Click a line and Shift-click another, or drag over some."))];
  return dialog(`Run ${run.id} · ${run.tool}`, fields, {
    wide: true, action: "Add to context", extra: [copying],
    submit: isOver ? undefined : async (values) => {
      await promote(session, run, values, lines.length);
      await after();
    },
  });
}

async function promote(session, run, { from, to, note }, all) {
  const isWhole = Number(from) === 1 && Number(to) === all;
  const body = { run: run.id, ...(isWhole ? {} : { lines: `${from}-${to}` }), ...(note ? { note } : {}) };
  await once(`${sessionPath(session)}/use-output`, body);
}
