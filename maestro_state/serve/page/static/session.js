// The conversation of one session, as it happens. What it says is text, whatever it contains.

import { follow } from "./stream.js";

const main = document.querySelector("main");
const log = document.getElementById("log");
const line = document.getElementById("line");
const outputs = new Map();

function add(className, who, text) {
  const article = document.createElement("article");
  article.className = className;
  const name = document.createElement("div");
  name.className = "who";
  name.textContent = who;
  const said = document.createElement("pre");
  said.textContent = text;
  article.append(name, said);
  const isAtEnd = window.innerHeight + window.scrollY >= document.body.offsetHeight - 40;
  log.append(article);
  if (isAtEnd) window.scrollTo(0, document.body.scrollHeight);
  return said;
}

function take({ type, ts, data }) {
  if (type === "message.added") {
    add("message", [data.role, data.user, ts].filter(Boolean).join(" · "), data.content);
  } else if (type === "run.output") {
    const known = outputs.get(data.run);
    if (known) known.append(data.text);
    else outputs.set(data.run, add("output", `run ${data.run} · output`, data.text));
  } else if (type.startsWith("run.") || type.startsWith("session.") || type.startsWith("context.")) {
    const more = [data.run, data.item, data.tool, data.status, data.reason].filter(Boolean).join(" ");
    add("note", ts, `${type} ${more}`.trim());
  }
}

follow(`/v1/sessions/${encodeURIComponent(main.dataset.session)}/events`, take, (text) => {
  line.textContent = text;
});
