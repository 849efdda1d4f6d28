// One orchestration instance: status, what it waits for, its steps as bars over time, its history, what can be done.
import { get, now, path } from "../api.js";
import { number, precise } from "../format.js";
import { useLive } from "../live.js";
import { Badge, Card, Facts, Payload, Problem, Time, Title } from "../parts.js";
import { toInstance, toInstances } from "../route.js";
import { html, useRef, useState } from "../view.js";
import { Bars } from "./bars.js";
import { Failure } from "./failure.js";
import { History } from "./history.js";
import { InstanceActions } from "./instance_actions.js";

const EVENTS_SHOWN = 200;
const EVENTS_MORE = 500;
// Each event may have a large payload.
const MOST_AT_ONCE = 100;
const BACK = { to: "#/orchestrations", text: "All orchestrations" };

export function Instance({ id }) {
  const [wanted, setWanted] = useState(EVENTS_SHOWN);
  const kept = useRef({ of: "", events: new Map() });
  const { value, error } = useLive(() => load(id, wanted, kept.current), [wanted], [`instance:${id}`]);
  const found = value?.found ?? null;
  return html`<article class="view" aria-label=${id}>
    <${Title} back=${BACK}>${id}<//>
    ${found && html`<${InstanceActions} found=${found} />`}
    <${Problem} error=${error} />
    ${found && html`<${Body} ...${value} onMore=${() => setWanted(wanted + EVENTS_MORE)} />`}
  </article>`;
}

// Fetches the status and the events that are not loaded yet: usually the few new ones.
async function load(id, wanted, kept) {
  const found = await get(path`orchestrations/${id}`);
  // An id can be reused after a deletion.
  const of = `${found.created_at} ${found.execution_id}`;
  if (of !== kept.of) Object.assign(kept, { of, events: new Map() });
  const first = Math.max(1, found.events - wanted + 1);
  for (const seq of kept.events.keys()) if (seq < first) kept.events.delete(seq);
  const history = `${path`orchestrations/${id}/history`}?execution_id=${found.execution_id}`;
  for (let next = first; next <= found.events; next += 1) {
    if (kept.events.has(next)) continue;
    let many = 1;
    while (many < MOST_AT_ONCE && next + many <= found.events && !kept.events.has(next + many)) many += 1;
    const answer = await get(`${history}&limit=${many}&cursor=${next - 1}`);
    if (answer.events.length === 0) break;
    for (const event of answer.events) kept.events.set(event.seq, event);
  }
  const events = [...kept.events.values()].sort((one, other) => one.seq - other.seq);
  return { found, events, children: children(events) };
}

const children = (events) => events.filter((event) => event.type === "SubOrchestrationScheduled");

function Body({ found, events, children: started, onMore }) {
  const [shape, setShape] = useState("bars");
  const ended = found.ended_at !== null;
  const end = ended ? Date.parse(found.ended_at) : now();
  const earlier = events.length > 0 && events[0].seq > 1;
  const side = html`<span class="quiet">${events.length < found.events
    ? `the last ${number(events.length)} of ${number(found.events)} events` : `${number(found.events)} events`}</span>
    <div class="switch" role="group" aria-label="Show as">${["bars", "list"].map((one) => html`
      <button type="button" aria-pressed=${String(shape === one)} onClick=${() => setShape(one)}>${one}</button>`)}</div>`;
  return html`
    <dl class="tiles">
      <div><dt>Status</dt><dd class="now"><${Badge} status=${found.status} /></dd></div>
      <div><dt>version ${found.version}</dt><dd class="wrap"><a href=${toInstances({ name: found.name })}>${found.name}</a></dd></div>
      <div><dt>Started</dt><dd><${Time} at=${found.created_at} /></dd></div>
      <div><dt>${ended ? "Duration" : "Duration so far"}</dt><dd>${precise(end - Date.parse(found.created_at))}</dd></div>
      ${found.execution_id > 1 && html`<div><dt>Execution</dt><dd>${number(found.execution_id)}</dd></div>`}
    </dl>
    <${Links} found=${found} started=${started} />
    <${Blocked} blocked=${found.blocked} />
    ${found.error && html`<${Card} title="Failure" name="failure"><${Failure} error=${found.error} /><//>`}
    ${found.reason && html`<${Card} title="Reason" name="reason"><p class="value">${found.reason}</p><//>`}
    <${Waiting} waiting=${ended ? [] : found.waiting_for} />
    <${Card} title="Steps" name="steps" side=${side}>
      ${earlier && html`<button class="plain small" type="button" onClick=${onMore}>Show earlier events</button>`}
      ${shape === "bars" ? html`<${Bars} found=${found} events=${events} end=${end} />`
        : html`<${History} found=${found} events=${events} />`}<//>
    <div class="thirds">
      <${Card} title="Input" name="input"><${Payload} value=${found.input} name="Input" /><//>
      ${found.status === "COMPLETED" && html`<${Card} title="Output" name="output"><${Payload} value=${found.output} name="Output" /><//>`}
      ${found.custom_status !== null && html`<${Card} title="Custom status" name="custom"><${Payload} value=${found.custom_status} name="Custom status" /><//>`}
      <${Tags} tags=${found.tags} />
    </div>`;
}

function Links({ found, started }) {
  const { rerun_of: source, reruns = [] } = found;
  if (!found.parent && !source && reruns.length === 0 && started.length === 0) return null;
  const links = (ids) => ids.map((id, place) => html`${place > 0 && ", "}<a key=${id} href=${toInstance(id)}>${id}</a>`);
  return html`<p class="links">
    ${found.parent && html`<span>Started by ${links([found.parent.instance_id])}</span>`}
    ${source && html`<span>Rerun of ${links([source.instance_id])} from event ${number(source.from_seq)}</span>`}
    ${reruns.length > 0 && html`<span>Reruns: ${links(reruns)}</span>`}
    ${started.length > 0 && html`<span>Children: ${links([...new Set(started.map((one) => one.instance_id))].slice(0, 20))}</span>`}
  </p>`;
}

function Blocked({ blocked }) {
  if (!blocked) return null;
  const facts = [
    ["Kind", blocked.kind], ["Since", html`<${Time} at=${blocked.since} />`], ["Expected by history", blocked.expected],
    ["Found in code", blocked.found], ["Line", blocked.line],
  ].filter(([, value]) => value);
  return html`<${Card} title="Blocked: the deployed code does not fit" name="blocked">
    <p class="value">${blocked.message}</p><${Facts} facts=${facts} />
    <p class="quiet">Nothing is lost. It goes on by itself when code that fits is deployed.</p><//>`;
}

function Waiting({ waiting }) {
  if (waiting.length === 0) return null;
  return html`<${Card} title="Waits for" name="waiting"><ul class="rows">${waiting.map((one) => html`
    <li key=${`${one.kind} ${one.scheduled_seq}`}><span class="kind">${one.kind}</span>${one.kind !== "timer" && html` <b>${one.name}</b>`}
      <span class="quiet"> for <${Time} at=${one.since} kind="for" /></span>
      ${one.due_at && html`<span> due <${Time} at=${one.due_at} kind="ahead" /></span>`}</li>`)}</ul><//>`;
}

function Tags({ tags }) {
  const pairs = Object.entries(tags);
  return pairs.length > 0 && html`<${Card} title="Tags" name="tags"><p class="tag-list">${pairs.map(([key, value]) =>
    html`<a class="tag" href=${toInstances({ tag: `${key}:${value}` })}>${key}: ${value}</a>`)}</p><//>`;
}
