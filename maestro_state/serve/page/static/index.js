// The list of sessions: drawn by the server, drawn again when one of them changes. Signs in first, if it was opened so.

import { signIn } from "./signin.js";

const code = new URLSearchParams(location.hash.slice(1)).get("signin");
if (code) {
  history.replaceState(null, "", "/");
  signIn(code);
} else {
  const source = new EventSource("/v1/events");
  let known = null;
  let pending = 0;
  source.addEventListener("session.changed", () => {
    // All rows come first, each as a change; what comes later is one.
    if (known === null) {
      clearTimeout(pending);
      pending = setTimeout(() => { known = true; }, 500);
      return;
    }
    clearTimeout(pending);
    pending = setTimeout(draw, 200);
  });
}

async function draw() {
  const answer = await fetch("/v1/sessions", { cache: "no-store" });
  if (!answer.ok) return;
  const { sessions } = await answer.json();
  const rows = sessions.map((row) => {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = `/sessions/${encodeURIComponent(row.id)}`;
    link.textContent = row.id;
    const parts = [row.state, row.status].map((text) => {
      const part = document.createElement("span");
      part.textContent = text;
      return part;
    });
    const time = document.createElement("time");
    time.textContent = row.updated_at;
    item.append(link, " ", parts[0], " ", parts[1], " ", time);
    return item;
  });
  document.getElementById("sessions").replaceChildren(...rows);
}
