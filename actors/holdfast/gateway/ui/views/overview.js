// The overview: what needs attention first, then what runs, then queues, workers and schedules.
import { get } from "../api.js";
import { AgeChart, Chart, meanRate, RateChart } from "../chart.js";
import { count, number, rate } from "../format.js";
import { useLive } from "../live.js";
import { Badge, Card, Problem, Time, Title } from "../parts.js";
import { toInstance, toInstances, toQueue, toSchedule } from "../route.js";
import { html } from "../view.js";
import { loadQueues } from "./queues.js";
import { Running } from "./workers.js";

const SHOWN = 5;
const QUEUES = 100;
const ORDER = ["FAILED", "BLOCKED", "RUNNING", "PENDING", "SUSPENDED", "COMPLETED", "CANCELLED"];
const ALARMS = new Set(["FAILED", "BLOCKED"]);

export function Overview() {
  const counts = useLive(() => get("orchestrations/counts"), [], ["instances"]);
  return html`<${Title}>Overview<//>
    <${Problem} error=${counts.error} />
    <${Counts} counts=${counts.value?.counts} />
    <div class="halves"><div class="half"><${Attention} counts=${counts.value?.counts ?? {}} /><${Flow} /></div>
      <div class="half"><${DeadLetters} /><${Oldest} /><${WorkersNow} /><${Ticks} /></div></div>`;
}

function Counts({ counts }) {
  if (!counts) return null;
  return html`<nav class="tiles" aria-label="Orchestrations by status">${ORDER.map((status) => html`
    <a key=${status} href=${toInstances({ status })} class=${ALARMS.has(status) && counts[status] ? "alarm" : ""}>
      <span>${status.charAt(0) + status.slice(1).toLowerCase()}</span><b>${number(counts[status] ?? 0)}</b></a>`)}</nav>`;
}

const Instances = ({ found }) => html`<ul class="rows">${found.map((one) => html`<li key=${one.instance_id}>
  <a href=${toInstance(one.instance_id)}>${one.instance_id}</a><span class="quiet">${one.name}</span>
  <${Badge} status=${one.status} /><${Time} at=${one.ended_at ?? one.created_at} /></li>`)}</ul>`;

function Attention({ counts }) {
  const many = (counts.FAILED ?? 0) + (counts.BLOCKED ?? 0);
  const { value } = useLive(async () => {
    const lists = await Promise.all(["BLOCKED", "FAILED"].map((status) => get(`orchestrations?limit=${SHOWN}&status=${status}`)));
    return lists.flatMap((answer) => answer.orchestrations);
  }, [], ["instances"]);
  const side = many > SHOWN && html`<a href=${toInstances({ status: "FAILED" })}>All that failed</a>`;
  return html`<${Card} title="Needs attention" name="attention" side=${side}>
    ${value?.length ? html`<${Instances} found=${value} />` : value && html`<p class="empty">Nothing has failed, and nothing is blocked.</p>`}<//>`;
}

function Oldest() {
  const { value } = useLive(() => get(`orchestrations?limit=${SHOWN}&order=oldest&status=RUNNING`), [], ["instances"]);
  if (!value) return null;
  return html`<${Card} title="Running longest" name="oldest">${value.orchestrations.length
    ? html`<${Instances} found=${value.orchestrations} />`
    : html`<p class="empty">Nothing runs. <a href="#/start">Start an orchestration</a>.</p>`}<//>`;
}

function Flow() {
  const { value } = useLive(() => get("samples"), []);
  if (!value) return null;
  const { total, interval_seconds: interval } = value;
  return html`<${Card} title="Items in queues, last hour" name="depth">
      <${Chart} name="Items in queues" at=${total.at} lines=${[{ name: "waiting", values: total.waiting }, { name: "locked", values: total.locked, kind: "locked" }]} /><//>
    <${Card} title="Items in and out" name="rates" side=${html`<span class="quiet">${rate(meanRate(total.pushed, interval))} in, ${rate(meanRate(total.left, interval))} out in the last minute</span>`}>
      <${RateChart} samples=${total} interval=${interval} /><//>
    <${Card} title="Age of the oldest waiting item" name="age"><${AgeChart} samples=${total} /><//>`;
}

function DeadLetters() {
  const { value } = useLive(() => loadQueues(QUEUES), [], ["queues"]);
  if (!value) return null;
  const holding = value.found.filter((one) => one.dead_letters > 0).sort((one, other) => other.dead_letters - one.dead_letters);
  return html`<${Card} title="Dead letters" name="dead">${holding.length ? html`<ul class="rows">${holding.slice(0, SHOWN).map((one) => html`
    <li key=${one.queue}><a href=${toQueue(one.queue)}>${one.queue}</a><b class="bad">${number(one.dead_letters)}</b></li>`)}</ul>`
    : html`<p class="empty">${value.found.length ? "None." : html`No queues yet. <a href="#/queues">How to begin</a>.`}</p>`}<//>`;
}

function WorkersNow() {
  const { value } = useLive(() => get("workers"), [], ["instances"]);
  if (!value) return null;
  const running = value.workers.reduce((sum, one) => sum + one.running_count, 0);
  return html`<${Card} title="Workers" name="workers" side=${html`<a href="#/workers">All</a>`}>
    ${value.workers.length ? html`<p>${count(running, "activity", "activities")} running in this server.</p>
      <${Running} running=${value.workers.flatMap((one) => one.running).slice(0, SHOWN)} />`
    : html`<p class="empty">No worker in this server.</p>`}<//>`;
}

function Ticks() {
  const { value } = useLive(() => get("schedules?limit=100"), []);
  if (!value) return null;
  const next = value.schedules.filter((one) => !one.paused && one.next_at.length > 0)
    .sort((one, other) => Date.parse(one.next_at[0]) - Date.parse(other.next_at[0]));
  return html`<${Card} title="Next ticks" name="ticks" side=${html`<a href="#/schedules">All</a>`}>
    ${next.length ? html`<ul class="rows">${next.slice(0, SHOWN).map((one) => html`<li key=${one.name}><a href=${toSchedule(one.name)}>${one.name}</a>
      <span class="quiet">${one.orchestration}</span><${Time} at=${one.next_at[0]} kind="ahead" /></li>`)}</ul>`
    : html`<p class="empty">No schedules. <a href="#/schedules">Make one</a>.</p>`}<//>`;
}
