// The history as sentences: each event with its time since the start.
import { moment, precise } from "../format.js";
import { Payload } from "../parts.js";
import { html } from "../view.js";
import { Failure } from "./failure.js";

// Fields that every event has or that its sentence already shows.
const HIDDEN_FIELDS = new Set(["type", "seq", "execution_id", "timestamp", "scheduled_seq", "error"]);
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

const after = (event, scheduled) =>
  (scheduled ? ` after ${precise(new Date(event.timestamp) - new Date(scheduled.timestamp))}` : "");

export function History({ found, events }) {
  const bySeq = new Map(events.map((event) => [event.seq, event]));
  const began = Date.parse(found.created_at);
  return html`<ol class="timeline">${events.map((event) =>
    html`<${Row} key=${`${event.execution_id} ${event.seq}`} event=${event} scheduled=${bySeq.get(event.scheduled_seq)} began=${began} />`)}</ol>`;
}

function Row({ event, scheduled, began }) {
  const [kind, text] = (EVENTS[event.type] ?? (() => ["", event.type]))(event, scheduled);
  const fields = Object.entries(event).filter(([name, value]) => !HIDDEN_FIELDS.has(name) && value !== null);
  const line = html`<span class="dot"></span><span class="sentence">${text}</span><code>${preview(event)}</code>
    <time datetime=${event.timestamp} title=${moment(new Date(event.timestamp))}>+${precise(Date.parse(event.timestamp) - began)}</time>`;
  if (fields.length === 0 && !event.error) return html`<li class=${kind}><div class="event">${line}</div></li>`;
  return html`<li class=${kind}><details><summary class="event">${line}</summary><div class="item-body">
    ${event.error && html`<${Failure} error=${event.error} />`}
    ${fields.length > 0 && html`<${Payload} value=${Object.fromEntries(fields)} name=${event.type} />`}</div></details></li>`;
}

// The orchestration's own input has a card beside the history.
function preview({ type, input, data, result }) {
  const value = type === "OrchestrationStarted" ? null : input ?? data ?? result ?? null;
  return value === null ? "" : JSON.stringify(value).slice(0, PREVIEW);
}
