// A history as people would tell it: what happened, how long after the beginning, and how long it took.
import { el } from "./dom.js";
import { payload } from "./items.js";
import { moment, span } from "./words.js";

const KINDS = {
  PENDING: "quiet", RUNNING: "under-way", SUSPENDED: "paused", COMPLETED: "good", FAILED: "bad", CANCELLED: "paused",
};
// What every event has, and what its sentence says already.
const UNTOLD = new Set(["type", "seq", "execution_id", "timestamp", "scheduled_seq"]);
const PREVIEW = 100;

const because = (reason) => (reason ? `: ${reason}` : "");

// Each with how it looks and what it says, of the event and of the one it answers.
const EVENTS = {
  OrchestrationStarted: ({ name, version, parent }) =>
    ["", `${name}, version ${version}, started${parent ? ` by ${parent.instance_id}` : ""}`],
  ActivityScheduled: ({ name, attempt }) => ["", `${name} asked for${attempt > 1 ? `, attempt ${attempt}` : ""}`],
  ActivityCompleted: (event, asked) => ["good", `${asked?.name ?? "An activity"} done${after(event, asked)}`],
  ActivityFailed: (event, asked) =>
    ["bad", `${asked?.name ?? "An activity"} failed${after(event, asked)}: ${event.error.message}`],
  TimerCreated: ({ fire_at: due }) => ["", `Timer set for ${moment(new Date(due))}`],
  TimerFired: (event, asked) => ["good", `Timer fired${after(event, asked)}`],
  SubOrchestrationScheduled: ({ name, instance_id: id, detached }) =>
    ["", `${name} started as ${id}${detached ? ", and not waited for" : ""}`],
  SubOrchestrationCompleted: (event, asked) =>
    ["good", `${asked?.instance_id ?? "Another orchestration"} done${after(event, asked)}`],
  SubOrchestrationFailed: (event, asked) =>
    ["bad", `${asked?.instance_id ?? "Another orchestration"} failed${after(event, asked)}: ${event.error.message}`],
  EventSubscribed: ({ name }) => ["under-way", `Waits for the event ${name}`],
  EventRaised: (event, asked) => ["good", `The event ${event.name} came${after(event, asked)}`],
  CancelRequested: ({ reason }) => ["paused", `Asked to cancel${because(reason)}`],
  OrchestrationSuspended: ({ reason }) => ["paused", `Suspended${because(reason)}`],
  OrchestrationResumed: () => ["", "Resumed"],
  ContinuedAsNew: () => ["good", "Continued as new"],
  OrchestrationCompleted: () => ["good", "Completed"],
  OrchestrationFailed: ({ error }) => ["bad", `Failed: ${error.message}`],
  OrchestrationCancelled: ({ reason }) => ["paused", `Cancelled${because(reason)}`],
};

// The names of the events it waits for.
export function awaited(events) {
  const came = new Set(events.map((event) => event.scheduled_seq));
  return events.filter(({ type, seq }) => type === "EventSubscribed" && !came.has(seq)).map((event) => event.name);
}

export const eventKey = (event) => `${event.execution_id} ${event.seq}`;

// What `keep` makes rows with. `of` finds an event by its number, if it is there; `began` is when the instance did.
export function eventRow(event, of, began) {
  const at = new Date(event.timestamp);
  const sentence = el("span", { class: "sentence" });
  const line = [
    el("span", { class: "dot" }), sentence, el("code", {}, preview(event)),
    el("time", { datetime: event.timestamp, title: moment(at) }, `+${precise(at - began)}`),
  ];
  const row = el("li", {}, unfolding(event, line));
  return [row, () => {
    const [kind, text] = (EVENTS[event.type] ?? (() => ["", event.type]))(event, of(event.scheduled_seq));
    row.className = kind;
    if (sentence.textContent !== text) sentence.textContent = text;
  }];
}

function unfolding(event, line) {
  const told = Object.entries(event).filter(([name, value]) => !UNTOLD.has(name) && value !== null);
  if (told.length === 0) return el("div", { class: "event" }, ...line);
  const body = el("div", { class: "item-body" });
  const unfolded = el("details", {}, el("summary", { class: "event" }, ...line), body);
  unfolded.addEventListener("toggle", () => unfolded.open && body.replaceChildren(payload(Object.fromEntries(told))));
  return unfolded;
}

// What the orchestration itself was given is shown beside its history.
function preview({ type, input, data, result }) {
  const value = type === "OrchestrationStarted" ? null : input ?? data ?? result ?? null;
  return value === null ? "" : JSON.stringify(value).slice(0, PREVIEW);
}

const after = (event, asked) => (asked ? ` after ${precise(new Date(event.timestamp) - new Date(asked.timestamp))}` : "");

// Fractions matter where all is over within seconds.
export function precise(milliseconds) {
  if (milliseconds < 1000) return `${Math.max(0, Math.round(milliseconds))} ms`;
  return milliseconds < 10_000 ? `${(milliseconds / 1000).toFixed(1)} s` : span(milliseconds / 1000);
}

// A status, in a word of its own colour.
export function badge() {
  const element = el("span", { class: "badge" });
  return { element, draw(status) {
    element.textContent = status.toLowerCase();
    element.className = `badge ${KINDS[status] ?? ""}`;
  } };
}
