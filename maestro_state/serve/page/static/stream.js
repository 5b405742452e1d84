// Follows a stream of events for as long as the page is open: every event once, in order, wherever the line broke.

const AGAIN_MS = 1000;

// Returns an id as two numbers that can be compared.
function order(id) {
  const [ms, seq] = id.split("-");
  return [BigInt(ms), BigInt(seq ?? 0)];
}

function isAfter(id, last) {
  if (last === null) return true;
  const [ms, seq] = order(id);
  const [lastMs, lastSeq] = order(last);
  return ms > lastMs || (ms === lastMs && seq > lastSeq);
}

// Calls `take` with each event and `say` with how the line is. Reads the stream itself: unlike EventSource it goes on
// after a server that was away answered with an error.
export async function follow(path, take, say) {
  let last = null;
  for (;;) {
    try {
      const headers = last === null ? {} : { "Last-Event-ID": last };
      const answer = await fetch(`${path}?from=start`, { headers, cache: "no-store" });
      if (answer.status === 204) return say("ended");
      if (answer.status === 401) return location.reload();
      if (answer.status === 404) return say("gone");
      if (answer.ok) {
        say("live");
        for await (const event of events(answer.body)) {
          if (!isAfter(event.id, last)) continue;
          last = event.id;
          take(event);
        }
      }
    } catch {
      // The line broke, or there is no server: the same as an end.
    }
    say("waiting for the server");
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const data = part.split("\n").find((line) => line.startsWith("data: "));
      if (data) yield JSON.parse(data.slice(6));
    }
  }
}
