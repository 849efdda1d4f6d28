// Items as rows that unfold to the payload and the metadata.
import { el } from "./dom.js";
import { count, label, live, moment, number } from "./format.js";

const PREVIEW = 200;
const WHOLE = 50_000;
const TIMES = new Set(["enqueued_at", "dead_lettered_at"]);
const IN_SUMMARY = new Set(["priority"]);

export const itemsOf = (answer) => answer.messages.map((message, place) => ({ message, item: answer.items[place] }));

export const itemKey = ({ message }) => message.id;

// Makes rows for `keep`. The delivery count is shown above `expected`: 0 for waiting items, 1 for popped ones.
export const waitingRow = (entry) => row(entry, 0);
export const takenRow = (entry) => row(entry, 1);

function row({ message, item }, expected) {
  const text = JSON.stringify(item);
  const when = el("time");
  const again = el("span", { class: "again" });
  const body = el("div", { class: "item-body" });
  const unfolded = el("details", {},
    el("summary", {},
      el("span", { class: "priority", title: "priority" }, `${message.priority}`),
      el("code", {}, text.slice(0, PREVIEW)), again, when),
    body);
  let latest = message;
  const fill = () => body.replaceChildren(payload(item), metadata(latest));
  unfolded.addEventListener("toggle", () => unfolded.open && fill());
  return [el("li", {}, unfolded), (entry) => {
    const changed = JSON.stringify(entry.message) !== JSON.stringify(latest);
    latest = entry.message;
    live(when, new Date(latest.enqueued_at), "ago");
    again.textContent = latest.delivery_count > expected ? `${number(latest.delivery_count)}×` : "";
    again.title = `delivered ${count(latest.delivery_count, "time")}`;
    if (changed && unfolded.open) fill();
  }];
}

export function payload(item) {
  const text = JSON.stringify(item, null, 2);
  const shown = el("pre", { tabindex: "0" }, text.slice(0, WHOLE));
  if (text.length > WHOLE) shown.append(el("em", {}, ` … ${number(text.length - WHOLE)} characters more`));
  return shown;
}

function metadata(message) {
  const { dead_letter: origin, ...own } = message;
  const facts = { ...own, ...origin };
  return el("dl", { class: "facts-list" }, ...Object.entries(facts)
    .filter(([name, value]) => value !== null && !IN_SUMMARY.has(name))
    .flatMap(([name, value]) => [el("dt", {}, label(name)), el("dd", {}, formatted(name, value))]));
}

function formatted(name, value) {
  if (TIMES.has(name)) return moment(new Date(typeof value === "number" ? value * 1000 : value));
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
