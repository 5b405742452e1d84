// Numbers, times and states as people read them; the same words as at the command line.

export const MEANINGS = {
  iniciada: "started", com_contexto: "has context", executando: "running",
  com_saida: "has output", finalizada: "ended", abortada: "given up",
};
export const OVER = new Set(["finalizada", "abortada"]);
export const OPEN = new Set(["pending", "running"]);

const UNITS = [[1e9, "G"], [1e6, "M"], [1e3, "k"]];

export function count(number) {
  for (const [size, unit] of UNITS) {
    if (number >= size) return `${Number((number / size).toFixed(number < 9.95 * size ? 1 : 0))}${unit}`;
  }
  return String(number);
}

export function money(dollars) {
  return dollars >= 1 || dollars === 0 ? `$${dollars.toFixed(2)}` : `$${dollars.toFixed(4)}`;
}

export function duration(ms) {
  const s = Math.max(0, ms) / 1000;
  if (s < 9.95) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.round(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  const [days, hours] = [Math.floor(s / 86400), Math.floor((s % 86400) / 3600)];
  return days < 10 && hours ? `${days} d ${hours} h` : counted(days, "day");
}

export function ago(time, now = Date.now()) {
  const s = (now - Date.parse(time)) / 1000;
  if (s < 10) return "now";
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86400)} d`;
}

export function before(time) {
  const told = ago(time);
  return told === "now" ? "just now" : `${told} ago`;
}

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });

export function clock(time) {
  const at = new Date(time);
  return at.toDateString() === new Date().toDateString() ? CLOCK.format(at) : `${DAY.format(at)} ${CLOCK.format(at)}`;
}

export function consumed(usage) {
  if (!usage) return "";
  const told = usage.tokens_input !== undefined || usage.tokens_output !== undefined;
  const tokens = told ? `${count(usage.tokens_input ?? 0)} → ${count(usage.tokens_output ?? 0)} tokens` : "";
  return [tokens, usage.cost === undefined ? "" : money(usage.cost)].filter(Boolean).join(" · ");
}

export function counted(number, word) {
  return `${number} ${word}${number === 1 ? "" : "s"}`;
}

// Text without what a terminal would act on, and without what turns the reading direction of all that follows.
const ESCAPES = /\x1b(?:\[[0-?]*[ -\/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\|$)|[ -\/]*[0-~])/g;
const CONTROLS = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g;

export function plain(said) {
  const text = typeof said === "string" ? said : said === null || said === undefined ? "" : JSON.stringify(said);
  return text.replace(/\r\n/g, "\n").replace(ESCAPES, "").replace(/\r/g, "\n").replace(CONTROLS, "");
}
