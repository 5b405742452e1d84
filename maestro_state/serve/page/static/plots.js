// Plots, drawn as SVG: each with its numbers for those who do not see it.

import { h, svg } from "./dom.js";
import { count } from "./words.js";

// A line of how much happened in each interval of the last hour.
export function spark(counts) {
  const most = Math.max(3, ...counts);
  const points = counts.map((value, index) => `${((index / (counts.length - 1)) * 100).toFixed(1)} ${(28 - (value / most) * 25).toFixed(1)}`);
  const sum = counts.reduce((all, one) => all + one, 0);
  return svg("svg", { class: "spark", viewBox: "0 0 100 30", preserveAspectRatio: "none", role: "img", "aria-label": `${sum} changes in the last hour` },
    sum ? svg("path", { class: "under", d: `M0 29 L${points.join(" L")} L100 29 Z` }) : null, svg("path", { d: `M${points.join(" L")}` }));
}

const W = 340;
const H = 130;
const LEFT = 52; // room for what is told beside the axis; more where that is longer
const LETTER = 6.6;
const BOTTOM = 18;

// Bars along the time: rows of { label, values: [a, b], title }; `show` turns a number into text.
export function bars(name, rows, series, show, { width = W, height = H } = {}) {
  const most = Math.max(...rows.map((row) => row.values.reduce((all, one) => all + one, 0)), 0) || 1;
  const top = nice(most);
  const marks = [0, top / 2, top];
  const left = Math.max(LEFT, ...marks.map((value) => show(value).length * LETTER + 6));
  const step = (width - left) / Math.max(rows.length, 8);
  const gap = Math.min(6, step * 0.25);
  const y = (value) => height - BOTTOM - (value / top) * (height - BOTTOM - 8);
  const every = Math.ceil(rows.length / Math.max(1, Math.floor((width - left) / 52)));
  const shapes = rows.flatMap((row, index) => {
    let base = 0;
    const at = left + index * step + gap / 2;
    const parts = row.values.map((value, kind) => {
      const bar = svg("rect", { class: series[kind].class, x: at.toFixed(1), width: Math.max(1, step - gap).toFixed(1), rx: 2,
        y: y(base + value).toFixed(1), height: Math.max(value ? 1 : 0, y(base) - y(base + value)).toFixed(1) }, svg("title", null, row.title));
      base += value;
      return bar;
    });
    // The last is always told. A long one at the beginning begins at its bar: it would touch the axis' own.
    const isMiddle = index > 0 || row.label.length < 4;
    const middle = at + (step - gap) / 2;
    const isCut = middle + (row.label.length * LETTER) / 2 > width; // the last one's end is the plot's
    const [x, anchor] = isCut ? [width, "end"] : isMiddle ? [middle, "middle"] : [at, "start"];
    if ((rows.length - 1 - index) % every === 0) parts.push(svg("text", { x: x.toFixed(1), y: height - 4, "text-anchor": anchor }, row.label));
    return parts;
  });
  const lines = marks.flatMap((value) => [
    svg("line", { class: "axis", x1: left, x2: width, y1: y(value), y2: y(value) }),
    svg("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, show(value)),
  ]);
  const table = h("table", { class: "unseen" }, h("caption", null, name), h("thead", null, h("tr", null, h("td"), series.map((one) => h("th", { scope: "col" }, one.name)))), h("tbody", null,
    rows.map((row) => h("tr", null, h("th", { scope: "row" }, row.label), row.values.map((value) => h("td", null, show(value)))))));
  const key = series.length ? h("div", { class: "key", "aria-hidden": "true" }, series.map((one) => h("span", { class: one.class }, one.name))) : null;
  return h("figure", { "aria-label": name }, svg("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, lines, shapes), key, table);
}

// The next number above that people count to: 1, 2 or 5 and zeros.
function nice(value) {
  const size = 10 ** Math.floor(Math.log10(value));
  return size * [1, 2, 3, 4, 5, 6, 8, 10].find((one) => value <= one * size * (1 + 1e-9));
}

// Money beside an axis: no more digits than it takes to tell one line from the next.
export function dollars(value) {
  if (value > 1 && value < 10 && !Number.isInteger(value)) return `$${value.toFixed(2)}`;
  return value < 10 ? `$${Number(value.toPrecision(2))}` : `$${count(value)}`;
}

// Bars beside names, the largest first.
export function ranked(rows, show) {
  const most = Math.max(...rows.map((row) => row.value), 0) || 1;
  return h("ul", { class: "bars" }, rows.map((row) => {
    const bar = h("span", { class: "bar", "aria-hidden": "true" });
    bar.style.width = `${(row.value / most) * 100}%`;
    return h("li", { data: row.tool ? { tool: row.tool } : {} },
      h("span", { class: "label", title: row.label, dir: "auto" }, row.label), show(row), h("span", { class: "track" }, bar));
  }));
}
