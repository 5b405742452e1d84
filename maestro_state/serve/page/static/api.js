// Asking the server. A refusal is an error with the server's own words: what went wrong, and what to do next.

class Refused extends Error {
  constructor(status, { code, message, hint }) {
    super(message);
    this.status = status;
    this.code = code;
    this.hint = hint;
  }
}

// What is only read is read again: an answer that never comes, over a line that nobody cut, would be waited for for ever,
// and all that is read after it.
const ANSWERED_MS = 60000;

// Calls with a signal that ends what takes too long.
export async function within(ms, call) {
  const cut = new AbortController();
  const timer = setTimeout(() => cut.abort(), ms);
  try {
    return await call(cut.signal);
  } finally {
    clearTimeout(timer);
  }
}

async function ask(method, path, body, headers = {}, signal = undefined) {
  let answer;
  let said = null;
  try {
    answer = await fetch(path, {
      method,
      headers: body === undefined ? headers : { "Content-Type": "application/json", ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
    });
    if (answer.ok) return answer.status === 204 ? null : await answer.json();
    said = await answer.json().catch(() => null);
  } catch {
    throw new Refused(0, { code: "away", message: "The server does not answer.", hint: "Is maestro serve still running? The page goes on by itself when it is back." });
  }
  if (answer.status === 401) location.reload();
  throw new Refused(answer.status, said?.error ?? { code: "internal", message: `The server answered ${answer.status}.`, hint: null });
}

export const get = (path) => within(ANSWERED_MS, (signal) => ask("GET", path, undefined, {}, signal));
export const post = (path, body = {}) => ask("POST", path, body);
// A POST that changes nothing: it is only too long for an address.
export const query = (path, body) => within(ANSWERED_MS, (signal) => ask("POST", path, body, {}, signal));
export const remove = (path) => ask("DELETE", path);

const UNANSWERED = "maestro.unanswered ";

// Nobody tries again what was not answered below a path: the same words are said anew from here on.
export function giveUp(path) {
  for (const what of Object.keys(sessionStorage)) if (what.startsWith(`${UNANSWERED}${path}/`)) sessionStorage.removeItem(what);
}

// A change that is made once however often it is sent: a second try, after the line broke or the page was loaded again,
// has the key of the first.
export async function once(path, body) {
  const what = `${UNANSWERED}${path} ${JSON.stringify(body)}`;
  const key = sessionStorage.getItem(what) ?? newKey();
  try { sessionStorage.setItem(what, key); } catch { /* no room left: then it is only sent */ }
  try {
    const answer = await ask("POST", path, body, { "Idempotency-Key": key });
    sessionStorage.removeItem(what);
    return answer;
  } catch (error) {
    // A server that stops, fails or has lost its state server may have done it all the same: only a refusal is an answer.
    if (error.status >= 400 && error.status < 500) sessionStorage.removeItem(what);
    throw error;
  }
}

// Not randomUUID: browsers have it only over TLS or on this machine.
function newKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// Where a session's page is, and where what can be asked of it.
export function pagePath(id) {
  return `/sessions/${encodeURIComponent(id)}`;
}

export function sessionPath(id) {
  return `/v1${pagePath(id)}`;
}

// Reads and draws; of several that are under way, an answer that was asked for before the one that is drawn comes too late.
export function inOrder(read, draw) {
  let asked = 0;
  let drawn = 0;
  return async () => {
    asked += 1;
    const mine = asked;
    const found = await read();
    if (mine < drawn) return;
    drawn = mine;
    draw(found);
  };
}

export function debounce(call, ms) {
  let timer = 0;
  return (...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...args), ms);
  };
}

// At most one call at a time, at most every `ms`; what was asked for meanwhile is done once, afterwards.
export function paced(call, ms) {
  let isBusy = false;
  let isWanted = false;
  return async function go() {
    if (isBusy) { isWanted = true; return; }
    isBusy = true;
    try { await call(); } catch { /* the next change asks again */ }
    setTimeout(() => { isBusy = false; if (isWanted) { isWanted = false; go(); } }, ms);
  };
}
