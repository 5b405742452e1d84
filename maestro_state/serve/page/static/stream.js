// Follows a stream of events for as long as the page is open: every event once, in order, wherever the line broke.

const AGAIN_MS = 1000;
// The server says something every ten seconds: a line that is silent for longer is dead, whatever the system thinks.
const SILENT_MS = 35000;

// Returns an id as two numbers that can be compared.
function order(id) {
  const [ms, seq] = id.split("-");
  return [BigInt(ms), BigInt(seq ?? 0)];
}

export function isAfter(id, last) {
  if (last === null || last === undefined) return true;
  const [ms, seq] = order(id);
  const [lastMs, lastSeq] = order(last);
  return ms > lastMs || (ms === lastMs && seq > lastSeq);
}

// Comes when somebody looks at the page.
function shown() {
  return new Promise((resolve) => {
    const check = () => {
      if (document.hidden) return;
      document.removeEventListener("visibilitychange", check);
      resolve();
    };
    document.addEventListener("visibilitychange", check);
    check();
  });
}

// Calls `take` with each event and `say` with how the line is: live, away, ended or gone, and nothing while it is made
// anew. Reads the stream itself: unlike EventSource it goes on after a server that was away answered with an error.
//
// A browser has six connections to a server, for all of its tabs together: one that nobody looks at lets its own go, or
// the seventh would wait for ever. Shown again it goes on behind the last event that it saw.
export async function follow(path, { from = null, take, say }) {
  let last = from;
  for (;;) {
    await shown();
    const cut = new AbortController();
    let isLetGo = false;
    const hide = () => {
      if (!document.hidden) return;
      isLetGo = true;
      cut.abort();
    };
    document.addEventListener("visibilitychange", hide);
    const timer = setTimeout(() => cut.abort(), SILENT_MS);
    try {
      const headers = last === null ? {} : { "Last-Event-ID": last };
      const answer = await fetch(path, { headers, cache: "no-store", signal: cut.signal });
      clearTimeout(timer);
      if (answer.status === 204) return say("ended");
      if (answer.status === 401) return location.reload();
      if (answer.status === 404) return say("gone");
      if (answer.ok) {
        say("live");
        for await (const event of events(answer.body, cut)) {
          if (event.id !== undefined) {
            if (!isAfter(event.id, last)) continue;
            last = event.id;
          }
          take(event);
        }
      }
    } catch {
      // The line broke, or there is no server: the same as an end.
    } finally {
      document.removeEventListener("visibilitychange", hide);
      clearTimeout(timer);
      cut.abort(); // what nobody reads any more would keep one of the few connections that a browser has
    }
    if (isLetGo) {
      say("");
      continue;
    }
    say("away");
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}

// Follows all sessions; `again` reads anew each time that the line is there.
export function followAll(again, say, take = again) {
  let isFirst = true; // what is wrong then is told by who cannot read
  if (document.hidden) again(); // opened in a tab behind: it is drawn by the time somebody looks
  return follow("/v1/events?from=now", { take, say: (line) => { say(line); if (line === "live" || isFirst) again(); isFirst = false; } });
}

async function* events(body, cut) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let timer = 0;
  try {
    for (;;) {
      clearTimeout(timer);
      timer = setTimeout(() => cut.abort(), SILENT_MS);
      const { done, value } = await reader.read();
      if (done) return;
      const parts = (rest + value).split("\n\n");
      rest = parts.pop();
      for (const part of parts) {
        const data = part.split("\n").find((line) => line.startsWith("data: "));
        if (data) yield JSON.parse(data.slice(6));
      }
    }
  } finally {
    clearTimeout(timer);
  }
}
