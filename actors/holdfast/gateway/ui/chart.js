// Line charts over time, as SVG.
import { moment, number } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";

function svg(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

// Returns the points as unbroken stretches of [x, y].
function stretches(points, place) {
  const found = [[]];
  for (const point of points) {
    found.at(-1).push(place(point));
    if (point.end) found.push([]);
  }
  return found.filter((stretch) => stretch.length);
}

const pen = (places) => places.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L");

function line(points, place, width) {
  return stretches(points, place).map((stretch) => {
    // A single point is a short dash.
    const drawn = stretch.length > 1 ? stretch : [stretch[0], [Math.min(stretch[0][0] + 2, width), stretch[0][1]]];
    return `M${pen(drawn)}`;
  }).join("");
}

function area(points, place, floor) {
  return stretches(points, place).filter((stretch) => stretch.length > 1)
    .map((stretch) => `M${pen([[stretch[0][0], floor], ...stretch, [stretch.at(-1)[0], floor]])}Z`).join("");
}

// A small line without labels, for a list.
export class Sparkline {
  static #WIDTH = 120;
  static #HEIGHT = 32;
  static #SPAN_MS = 5 * 60 * 1000;
  static #SHORTEST_MS = 60 * 1000;

  constructor() {
    this.element = svg("svg", {
      class: "spark", viewBox: `0 0 ${Sparkline.#WIDTH} ${Sparkline.#HEIGHT}`, preserveAspectRatio: "none",
      "aria-hidden": "true",
    });
    this.area = svg("path", { class: "area" });
    this.line = svg("path", { class: "line" });
    this.element.append(this.area, this.line);
  }

  draw(series) {
    const end = series.points.at(-1)?.time ?? 0;
    const points = series.since(end - Sparkline.#SPAN_MS);
    const start = Math.max(end - Sparkline.#SPAN_MS, Math.min(points[0]?.time ?? end, end - Sparkline.#SHORTEST_MS));
    const top = Math.max(1, ...points.map((point) => point.waiting));
    const floor = Sparkline.#HEIGHT - 2;
    const place = (point) => [
      (Math.max(0, point.time - start) / (end - start || 1)) * Sparkline.#WIDTH,
      floor - (point.waiting / top) * (floor - 3),
    ];
    this.area.setAttribute("d", area(points, place, floor));
    this.line.setAttribute("d", line(points, place, Sparkline.#WIDTH));
  }
}

const WIDTH = 600;
const HEIGHT = 150;
const SHORTEST_MS = 60 * 1000;

// Rounds up to one of 4, 6, 8, 10, 20, 40, …: each has an integer half for the middle label.
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, value)));
  return Math.max(4, [1, 2, 4, 6, 8, 10].map((step) => step * power).find((step) => step >= value));
}

// Two lines with a scale and a readout of the values under the pointer.
export class DepthChart {
  #points = [];
  #place = () => [0, 0];
  #pointed = null;

  constructor({ plot, top, middle, start, end, readout }) {
    this.labels = { top, middle, start, end, readout };
    this.element = svg("svg", {
      class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img",
    });
    const grid = [1, HEIGHT / 2, HEIGHT - 1].map((y) => svg("path", { class: "grid", d: `M0 ${y}H${WIDTH}` }));
    this.area = svg("path", { class: "area" });
    this.line = svg("path", { class: "line" });
    this.locked = svg("path", { class: "line locked" });
    this.guide = svg("path", { class: "guide" });
    this.element.append(...grid, this.area, this.line, this.locked, this.guide);
    plot.append(this.element);
    plot.addEventListener("pointermove", (event) => this.#point(event));
    plot.addEventListener("pointerleave", () => this.#point(null));
  }

  draw(series, spanMs) {
    const end = series.points.at(-1)?.time ?? 0;
    const points = series.since(end - spanMs);
    const start = Math.max(end - spanMs, Math.min(points[0]?.time ?? end, end - SHORTEST_MS));
    const top = roundUp(Math.max(1, ...points.map((point) => Math.max(point.waiting, point.locked))));
    const x = (point) => (Math.max(0, point.time - start) / (end - start || 1)) * WIDTH;
    const at = (key) => (point) => [x(point), HEIGHT - 1 - (point[key] / top) * (HEIGHT - 2)];
    this.#points = points;
    this.#place = at("waiting");
    this.area.setAttribute("d", area(points, at("waiting"), HEIGHT - 1));
    this.line.setAttribute("d", line(points, at("waiting"), WIDTH));
    this.locked.setAttribute("d", line(points, at("locked"), WIDTH));
    this.labels.top.textContent = number(top);
    this.labels.middle.textContent = number(top / 2);
    this.labels.start.textContent = moment(new Date(start));
    this.labels.end.textContent = moment(new Date(end));
    this.#read();
  }

  #point(event) {
    const box = this.element.getBoundingClientRect();
    this.#pointed = event && ((event.clientX - box.left) / box.width) * WIDTH;
    this.#read();
  }

  #read() {
    const nearest = (one, other) =>
      Math.abs(this.#place(one)[0] - this.#pointed) <= Math.abs(this.#place(other)[0] - this.#pointed) ? one : other;
    const point = this.#pointed === null ? this.#points.at(-1) : this.#points.length && this.#points.reduce(nearest);
    if (!point) return;
    const text = `${number(point.waiting)} waiting, ${number(point.locked)} locked`;
    this.labels.readout.textContent = this.#pointed === null ? text : `${moment(new Date(point.time))}: ${text}`;
    this.guide.setAttribute("d", this.#pointed === null ? "" : `M${this.#place(point)[0]} 0V${HEIGHT}`);
    if (this.#pointed === null) this.element.setAttribute("aria-label", `Depth over time; now ${text}.`);
  }
}
