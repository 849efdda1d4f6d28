// Items as rows that unfold: the payload, and what Holdfast knows of it.
import { el } from "./dom.js";
import { count, label, live, moment, number } from "./words.js";

const PREVIEW = 200;
const WHOLE = 50_000;
const TIMES = new Set(["enqueued_at", "dead_lettered_at"]);
const IN_SUMMARY = new Set(["priority"]);

export const itemsOf = (answer) => answer.messages.map((message, place) => ({ message, item: answer.items[place] }));

export const itemKey = ({ message }) => message.id;

// What `keep` makes rows with. `known` deliveries are nothing to speak of: none of what waits, one of what was taken.
export const waitingRow = (entry) => row(entry, 0);
export const takenRow = (entry) => row(entry, 1);

function row({ message, item }, known) {
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
  const fill = () => body.replaceChildren(payload(item), knownOf(latest));
  unfolded.addEventListener("toggle", () => unfolded.open && fill());
  return [el("li", {}, unfolded), (entry) => {
    const changed = JSON.stringify(entry.message) !== JSON.stringify(latest);
    latest = entry.message;
    live(when, new Date(latest.enqueued_at), "ago");
    again.textContent = latest.delivery_count > known ? `${number(latest.delivery_count)}×` : "";
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

function knownOf(message) {
  const { dead_letter: origin, ...known } = message;
  const facts = { ...known, ...origin };
  return el("dl", { class: "facts-list" }, ...Object.entries(facts)
    .filter(([name, value]) => value !== null && !IN_SUMMARY.has(name))
    .flatMap(([name, value]) => [el("dt", {}, label(name)), el("dd", {}, spoken(name, value))]));
}

function spoken(name, value) {
  if (TIMES.has(name)) return moment(new Date(typeof value === "number" ? value * 1000 : value));
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
