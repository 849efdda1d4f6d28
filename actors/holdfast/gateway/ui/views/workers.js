// The worker of this server, and what it runs now.
import { get } from "../api.js";
import { count, number } from "../format.js";
import { useLive } from "../live.js";
import { Card, Problem, Time, Title } from "../parts.js";
import { toInstance, toQueue } from "../route.js";
import { html } from "../view.js";

export const Running = ({ running }) => html`<ul class="rows">${running.map((one) => html`
  <li key=${`${one.instance_id} ${one.execution_id} ${one.scheduled_seq} ${one.attempt}`}><b>${one.activity}</b>
    <a href=${toInstance(one.instance_id)}>${one.instance_id}</a>${one.attempt > 1 && html`<span class="quiet">attempt ${one.attempt}</span>`}
    <${Time} at=${one.since} /></li>`)}</ul>`;

export function Workers() {
  const { value, error } = useLive(() => get("workers"), []);
  return html`<${Title}>Workers<//><${Problem} error=${error} />
    ${value?.workers.map((worker, place) => html`<${Card} key=${place} title="In this server" name="worker"
      side=${html`<span class="quiet">${number(worker.slots)} slots in each queue</span>`}>
      <p>Queues: ${worker.queues.map((queue, at) => html`${at > 0 && ", "}<a key=${queue} href=${toQueue(queue)}>${queue}</a>`)}</p>
      <p>Activities: ${worker.activities.join(", ")}</p>
      <h4>${count(worker.running_count, "activity", "activities")} running now</h4>
      ${worker.running.length ? html`<${Running} running=${worker.running} />` : html`<p class="empty">Nothing runs.</p>`}<//>`)}
    ${value?.workers.length === 0 && html`<p class="card empty">This server runs no activities: no app with activities is loaded, or it was started with <code>--no-worker</code>.</p>`}
    <p class="quiet">Workers in other processes, started with <code>holdfast worker</code>, are not listed here. Their locks are shown at their queues.</p>`;
}
