// A session's state: the stored word with its meaning, and how alive it is while that may change.

import { dot, h } from "./dom.js";
import { MEANINGS, OVER } from "./words.js";

export function stateChip({ state, status }) {
  // A tool that says nothing for a while is at work all the same.
  const isAtWork = state === "executando" && status === "idle";
  const alive = OVER.has(state) || status === "active" || isAtWork ? "" : ` · ${status}`;
  return h("span", { class: "chip state", data: { state } }, dot(), h("b", null, state), ` ${MEANINGS[state] ?? ""}${alive}`);
}
