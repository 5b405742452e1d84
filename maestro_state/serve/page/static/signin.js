// Exchanges a token for a cookie that no script can read, then shows the page.

import { byId, problem } from "./dom.js";
import "./frame.js";

const WORDS = {
  401: { message: "This token does not count.", hint: "It is mistyped, over or revoked. Ask whoever runs this server for a new one." },
  429: { message: "Too many tries.", hint: "Wait a moment, then try again." },
};

// Returns null when one is in, else what to tell.
export async function signIn(token) {
  let answer;
  try {
    answer = await fetch("/v1/signin", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ token }) });
  } catch {
    return { message: "The server does not answer.", hint: "Is maestro serve still running?" };
  }
  if (answer.ok) { location.reload(); return null; }
  return WORDS[answer.status] ?? { message: `The server answered ${answer.status}.` };
}

const code = new URLSearchParams(location.hash.slice(1)).get("signin");
const form = byId("signin");
if (form) {
  const tell = (told) => byId("line").replaceChildren(...(told ? [problem(told)] : []));
  if (code) {
    history.replaceState(null, "", location.pathname);
    signIn(code).then((told) => tell(told && { message: "This link was used already, or is too old.", hint: "maestro serve --open makes a new one." }));
  }
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const field = byId("token");
    const told = await signIn(field.value);
    tell(told);
    if (told) { field.select(); field.focus(); }
  });
}
