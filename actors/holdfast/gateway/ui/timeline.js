// The history as sentences: each event with its time since the start and its duration.
import { el } from "./dom.js";
import { payload } from "./items.js";
import { moment, span } from "./format.js";

const KINDS = {
  PENDING: "quiet", RUNNING: "under-way", SUSPENDED: "paused", BLOCKED: "bad", COMPLETED: "good", FAILED: "bad",
  CANCELLED: "paused",
};
// Fields that every event has or that its sentence already shows.
const HIDDEN_FIELDS = new Set(["type", "seq", "execution_id", "timestamp", "scheduled_seq"]);
const PREVIEW = 100;

const because = (reason) => (reason ? `: ${reason}` : "");

// For each type, the CSS class and the sentence, from the event and the one that scheduled it.
const EVENTS = {
  OrchestrationStarted: ({ name, version, parent, start_at: later }) =>
    ["", `${name}, version ${version}, started${parent ? ` by ${parent.instance_id}` : ""}`
      + (later ? `, to begin at ${moment(new Date(later))}` : "")],
  ActivityScheduled: ({ name, attempt }) => ["", `${name} scheduled${attempt > 1 ? `, attempt ${attempt}` : ""}`],
  ActivityCompleted: (event, scheduled) =>
    ["good", `${scheduled?.name ?? "An activity"} completed${after(event, scheduled)}`],
  ActivityFailed: (event, scheduled) =>
    ["bad", `${scheduled?.name ?? "An activity"} failed${after(event, scheduled)}: ${event.error.message}`],
  TimerCreated: ({ fire_at: due }) => ["", `Timer set for ${moment(new Date(due))}`],
  TimerFired: (event, scheduled) => ["good", `Timer fired${after(event, scheduled)}`],
  SubOrchestrationScheduled: ({ name, instance_id: id, detached }) =>
    ["", `${name} started as ${id}${detached ? ", detached" : ""}`],
  SubOrchestrationCompleted: (event, scheduled) =>
    ["good", `${scheduled?.instance_id ?? "A sub-orchestration"} completed${after(event, scheduled)}`],
  SubOrchestrationFailed: (event, scheduled) =>
    ["bad", `${scheduled?.instance_id ?? "A sub-orchestration"} failed${after(event, scheduled)}: ${event.error.message}`],
  EventSubscribed: ({ name }) => ["under-way", `Waiting for event ${name}`],
  EventRaised: (event, scheduled) => ["good", `Event ${event.name} received${after(event, scheduled)}`],
  RequestReceived: ({ name }) => ["under-way", `Request ${name} received`],
  RequestAnswered: ({ name, rejected }) =>
    rejected === undefined ? ["good", `Request ${name} answered`] : ["paused", `Request ${name} rejected: ${rejected}`],
  ValueRefused: ({ name }) => ["bad", `A value does not match its type: ${name}`],
  PatchMarked: ({ name }) => ["", `Patch ${name} reached`],
  TagsSet: ({ tags }) => ["", `Tags set: ${Object.keys(tags).join(", ")}`],
  CancelRequested: ({ reason, timed_out: late }) =>
    late ? ["bad", "Time is over: cancelled"] : ["paused", `Cancellation requested${because(reason)}`],
  OrchestrationSuspended: ({ reason }) => ["paused", `Suspended${because(reason)}`],
  OrchestrationResumed: () => ["", "Resumed"],
  ContinuedAsNew: ({ version }) => ["good", `Continued as new${version ? `, version ${version}` : ""}`],
  OrchestrationCompleted: () => ["good", "Completed"],
  OrchestrationFailed: ({ error }) => ["bad", `Failed: ${error.message}`],
  OrchestrationCancelled: ({ reason }) => ["paused", `Cancelled${because(reason)}`],
};

// Returns the names of the events that the instance awaits.
export function awaited(events) {
  const answered = new Set(events.map((event) => event.scheduled_seq));
  return events.filter(({ type, seq }) => type === "EventSubscribed" && !answered.has(seq)).map((event) => event.name);
}

export const eventKey = (event) => `${event.execution_id} ${event.seq}`;

// Makes a row for `keep`. `of` returns a loaded event by its number; `began` is the start of the instance.
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
  const fields = Object.entries(event).filter(([name, value]) => !HIDDEN_FIELDS.has(name) && value !== null);
  if (fields.length === 0) return el("div", { class: "event" }, ...line);
  const body = el("div", { class: "item-body" });
  const unfolded = el("details", {}, el("summary", { class: "event" }, ...line), body);
  unfolded.addEventListener("toggle", () => unfolded.open && body.replaceChildren(payload(Object.fromEntries(fields))));
  return unfolded;
}

// The orchestration's own input has a card beside the history.
function preview({ type, input, data, result }) {
  const value = type === "OrchestrationStarted" ? null : input ?? data ?? result ?? null;
  return value === null ? "" : JSON.stringify(value).slice(0, PREVIEW);
}

const after = (event, scheduled) =>
  (scheduled ? ` after ${precise(new Date(event.timestamp) - new Date(scheduled.timestamp))}` : "");

// Short durations with fractions of a second.
export function precise(milliseconds) {
  if (milliseconds < 1000) return `${Math.max(0, Math.round(milliseconds))} ms`;
  return milliseconds < 10_000 ? `${(milliseconds / 1000).toFixed(1)} s` : span(milliseconds / 1000);
}

// A coloured label with the status.
export function badge() {
  const element = el("span", { class: "badge" });
  return { element, draw(status) {
    element.textContent = status.toLowerCase();
    element.className = `badge ${KINDS[status] ?? ""}`;
  } };
}
