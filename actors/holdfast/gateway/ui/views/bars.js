// The steps of an instance as bars over time: one row each, with its attempts and the delays between them.
import { age, moment, precise } from "../format.js";
import { Payload } from "../parts.js";
import { toInstance } from "../route.js";
import { attemptsOf, stepsOf } from "../steps.js";
import { html } from "../view.js";
import { Failure } from "./failure.js";
import { RerunButton } from "./rerun.js";

const WORDS = { open: "goes on", good: "completed", bad: "failed", delay: "delay before the next attempt", quiet: "ended", dropped: "dropped" };
const AXIS = [0, 0.25, 0.5, 0.75, 1];

export function Bars({ found, events, end }) {
  const ended = found.ended_at !== null;
  const steps = stepsOf(events, ended ? [] : found.waiting_for);
  if (steps.length === 0) return html`<p class="empty">No steps yet.</p>`;
  const begin = events[0].seq === 1 ? Date.parse(found.created_at) : steps[0].parts[0].from;
  const length = Math.max(1, end - begin);
  const percent = (time) => Math.min(100, Math.max(0, (100 * (time - begin)) / length));
  return html`<div class="bars">
    <div class="axis" aria-hidden="true"><span></span><span class="marks">${AXIS.map((part) =>
      html`<i style=${{ left: `${100 * part}%` }}>${part === 0 ? "0" : `+${precise(part * length)}`}</i>`)}</span></div>
    <ol>${steps.map((step) => html`<${Row} key=${step.seq} ...${{ step, found, percent, end, ended }} />`)}</ol></div>`;
}

const stateOf = (step, ended) => {
  const { state } = step.parts.at(-1);
  return state === "open" && ended ? "dropped" : state;
};

function Row({ step, found, percent, end, ended }) {
  const attempts = attemptsOf(step);
  const first = step.parts[0];
  const last = step.parts.at(-1);
  const state = stateOf(step, ended);
  const took = precise((last.to ?? end) - first.from);
  const many = attempts > 1 ? `, ${attempts} attempts` : "";
  const due = step.due && state === "open" ? `, due in ${age(Math.max(0, (step.due - end) / 1000))}` : "";
  return html`<li class=${state}><details><summary>
    <span class="what"><b>${step.name}</b>${step.kind !== "earlier" && html` <small>${step.kind}${many}${due}</small>`}</span>
    <span class="unseen">${WORDS[state]}</span>
    <span class="track">${step.parts.map((part) => {
      const shown = part.state === "open" && ended ? "dropped" : part.state;
      const [left, right] = [percent(part.from), percent(part.to ?? end)];
      return html`<i class=${`part ${shown}`} title=${`${WORDS[shown]}, ${precise((part.to ?? end) - part.from)}`}
        style=${{ left: `${left}%`, width: `${right - left}%` }}></i>`;
    })}<em style=${placeOf(percent(first.from), percent(last.to ?? end))}>${took}</em></span>
  </summary><div class="item-body">${step.parts.filter((part) => part.event).map((part, place) => html`
    <${Part} key=${part.seq} ...${{ part, step, found, title: attempts > 1 ? `Attempt ${place + 1}: ` : "" }} />`)}</div></details></li>`;
}

// After the bar where there is room, else before it, else on it.
function placeOf(left, right) {
  if (right <= 80) return { left: `${right}%`, marginLeft: ".4rem" };
  if (left >= 20) return { right: `${100 - left}%`, marginRight: ".4rem" };
  return { right: `${100 - right}%`, marginRight: ".4rem", color: "var(--card)" };
}

function Part({ part, step, found, title }) {
  const { event, end } = part;
  const value = event.input ?? event.data;
  const result = end?.result ?? end?.reply ?? (end === event ? undefined : end?.data);
  return html`<div class="part-body">
    <p class="row"><span>${title}${moment(new Date(part.from))}${part.to && ` to ${moment(new Date(part.to))}`}${event.queue && `, queue ${event.queue}`}</span>
      ${step.child && html`<a href=${toInstance(step.child)}>${step.child}</a>`}
      <${RerunButton} found=${found} seq=${part.seq} /></p>
    ${value !== undefined && value !== null && html`<p class="quiet">Input</p><${Payload} value=${value} name="Input" />`}
    ${result !== undefined && result !== null && html`<p class="quiet">Result</p><${Payload} value=${result} name="Result" />`}
    ${end?.error && html`<${Failure} error=${end.error} />`}
    ${end?.rejected && html`<p>Rejected: ${end.rejected}</p>`}
    ${event.reason && html`<p>${event.reason}</p>`}</div>`;
}
