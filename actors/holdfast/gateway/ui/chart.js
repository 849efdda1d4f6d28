// Line charts over time, as SVG: columns of the server's samples.
import { age, moment, number, rate } from "./format.js";
import { html, useState } from "./view.js";

const WIDTH = 600;
const HEIGHT = 150;
const SPARK = { width: 120, height: 32 };
// A longer pause between two samples is a gap, over which no line is drawn.
const GAP_FACTOR = 4;

const pen = (places) => places.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L");

// Returns the points as unbroken stretches of [x, y].
function stretches(at, values, x, y) {
  const pauses = at.slice(1).map((time, place) => time - at[place]).sort((one, other) => one - other);
  const longest = GAP_FACTOR * (pauses[Math.floor(pauses.length / 2)] ?? Infinity);
  const found = [];
  at.forEach((time, place) => {
    if (place === 0 || time - at[place - 1] > longest) found.push([]);
    found.at(-1).push([x(time), y(values[place])]);
  });
  return found;
}

const line = (parts, width) => parts.map((part) =>
  // A single point is a short dash.
  `M${pen(part.length > 1 ? part : [part[0], [Math.min(part[0][0] + 2, width), part[0][1]]])}`).join("");

const area = (parts, floor) => parts.filter((part) => part.length > 1)
  .map((part) => `M${pen([[part[0][0], floor], ...part, [part.at(-1)[0], floor]])}Z`).join("");

// A small line without labels, for a list.
export function Sparkline({ at, values }) {
  const { width, height } = SPARK;
  if (at.length === 0) return html`<span class="spark"></span>`;
  const [start, end] = [at[0], at.at(-1)];
  const top = Math.max(1, ...values);
  const floor = height - 2;
  const parts = stretches(at, values, (time) => ((time - start) / (end - start || 1)) * width,
    (value) => floor - (value / top) * (floor - 3));
  return html`<svg class="spark" viewBox=${`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true">
    <path class="area" d=${area(parts, floor)} /><path class="line" d=${line(parts, width)} /></svg>`;
}

// Rounds up to one of 4, 6, 8, 10, 20, 40, …: each has an integer half for the middle label.
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, value)));
  return Math.max(4, [1, 2, 4, 6, 8, 10].map((step) => step * power).find((step) => step >= value));
}

// Lines with a scale and a readout of the values under the pointer. `lines` are [{name, values, kind}].
export function Chart({ name, at, lines, unit = number }) {
  const [pointed, point] = useState(null);
  if (at.length === 0) return html`<p class="empty">The first sample is taken within ten seconds.</p>`;
  const [start, end] = [at[0], at.at(-1)];
  const top = roundUp(Math.max(1, ...lines.flatMap(({ values }) => values)));
  const x = (time) => ((time - start) / (end - start || 1)) * WIDTH;
  const y = (value) => HEIGHT - 1 - (value / top) * (HEIGHT - 2);
  const place = pointed === null ? at.length - 1
    : at.reduce((best, time, here) => (Math.abs(x(time) - pointed) < Math.abs(x(at[best]) - pointed) ? here : best), 0);
  const text = lines.map(({ name: one, values }) => `${unit(values[place])} ${one}`).join(", ");
  const move = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    point(((event.clientX - box.left) / box.width) * WIDTH);
  };
  return html`<div class="plot">
    <svg class="chart" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img"
      aria-label=${`${name}; now ${lines.map(({ name: one, values }) => `${unit(values.at(-1))} ${one}`).join(", ")}.`}
      onPointerMove=${move} onPointerLeave=${() => point(null)}>
      ${[1, HEIGHT / 2, HEIGHT - 1].map((height) => html`<path class="grid" d=${`M0 ${height}H${WIDTH}`} />`)}
      ${lines.map(({ values, kind }, order) => {
        const parts = stretches(at, values, x, y);
        return html`${order === 0 && html`<path class=${`area ${kind ?? ""}`} d=${area(parts, HEIGHT - 1)} />`}
          <path class=${`line ${kind ?? ""}`} d=${line(parts, WIDTH)} />`;
      })}
      ${pointed !== null && html`<path class="guide" d=${`M${x(at[place])} 0V${HEIGHT}`} />`}</svg>
    <span class="scale top">${unit(top)}</span><span class="scale middle">${unit(top / 2)}</span><span class="scale floor">0</span></div>
    <div class="under"><span>${moment(new Date(start * 1000))}</span><span>${moment(new Date(end * 1000))}</span></div>
    <p class="legend">${lines.map(({ name: one, kind }) => html`<span class=${`key ${kind ?? ""}`}>${one}</span>`)}
      <span class="readout">${pointed === null ? text : `${moment(new Date(at[place] * 1000))}: ${text}`}</span></p>`;
}

// Rates are means over this many samples.
const RATE_SAMPLES = 6;

export function meanRate(values, interval) {
  const last = values.slice(-RATE_SAMPLES);
  return last.length ? last.reduce((sum, one) => sum + one, 0) / last.length / interval : 0;
}

// Items in and out a second, from the server's samples.
export function RateChart({ samples, interval }) {
  const perSecond = (values) => (values ?? []).map((many) => many / interval);
  return html`<${Chart} name="Rates" at=${samples?.at ?? []} unit=${rate}
    lines=${[{ name: "in", values: perSecond(samples?.pushed) }, { name: "out", values: perSecond(samples?.left), kind: "locked" }]} />`;
}

export const AgeChart = ({ samples }) => html`<${Chart} name="Age of the oldest waiting item" at=${samples?.at ?? []} unit=${age}
  lines=${[{ name: "oldest", values: samples?.oldest_age_seconds ?? [] }]} />`;
