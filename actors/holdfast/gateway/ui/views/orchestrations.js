// The list of instances: newest first, found by the server, with actions on the chosen ones or on all that match.
import { get, path } from "../api.js";
import { count, curl, moment } from "../format.js";
import { useLive } from "../live.js";
import { Badge, Problem, Time, Title } from "../parts.js";
import { go, setFilters, toInstance, useRoute } from "../route.js";
import { useMay } from "../session.js";
import { html, useEffect, useRef, useState } from "../view.js";
import { BulkActions } from "./bulk.js";
import { useDefinitions } from "./definitions.js";

const PAGE = 50;
const MOST_PAGES = 10;
// With a rare status, an answer may contain no matching instance although later ones do.
const MOST_ANSWERS = 20;
const STATUSES = ["RUNNING", "PENDING", "SUSPENDED", "BLOCKED", "COMPLETED", "FAILED", "CANCELLED"];
const TIMES = { started_after: "Started after", started_before: "Started before", ended_after: "Ended after", ended_before: "Ended before" };
const RARE = ["version", "tag", ...Object.keys(TIMES)];
const FIELDS = ["status", "name", "id_prefix", ...RARE];
// Waits for a pause in the typing.
const TYPING_MS = 250;

export function Orchestrations() {
  const { filters } = useRoute();
  const given = Object.fromEntries(FIELDS.map((field) => [field, filters.get(field) ?? ""]));
  const wanted = FIELDS.some((field) => given[field]);
  return html`
    <${Title} tools=${html`<div class="tools"><a class="button" href="#/start">Start one…</a></div>`}>Orchestrations<//>
    <${Filters} given=${given} />
    <${List} given=${given} wanted=${wanted} />`;
}

function query(given) {
  const text = new URLSearchParams();
  for (const [field, value] of Object.entries(given)) {
    if (!value) continue;
    if (field === "tag") value.split(",").forEach((tag) => text.append("tag", tag.trim()));
    else text.append(field, field in TIMES ? new Date(value).toISOString() : value);
  }
  return text;
}

async function load(given, pages) {
  const found = [];
  let cursor;
  for (let answers = 0; answers < MOST_ANSWERS && found.length < pages * PAGE; answers += 1) {
    const answer = await get(`orchestrations?limit=${PAGE}&${query(given)}${cursor ? path`&cursor=${cursor}` : ""}`);
    found.push(...answer.orchestrations);
    cursor = answer.next_cursor;
    if (!cursor) break;
  }
  return { found, more: Boolean(cursor) };
}

function Filters({ given }) {
  const { orchestrations } = useDefinitions();
  const timer = useRef();
  const names = [...new Set(orchestrations.map((one) => one.name))];
  const versions = [...new Set(orchestrations.map((one) => one.version))];
  const change = (form) => setFilters(Object.fromEntries([...new FormData(form)].map(([key, value]) => [key, value.trim()])));
  const typed = ({ target: { form } }) => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      timer.current = null;
      change(form);
    }, TYPING_MS);
  };
  const form = useRef();
  // A link or the browser's history may have changed the filters. What is being typed is left alone.
  useEffect(() => {
    if (timer.current) return;
    for (const field of FIELDS) {
      const input = form.current.elements[field];
      if (input.value.trim() !== given[field]) input.value = given[field];
    }
  }, [JSON.stringify(given)]);
  const now = ({ target: { form } }) => change(form);
  const rare = RARE.some((field) => given[field]);
  // A form with several fields and no button is not submitted by Enter.
  const open = (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    clearTimeout(timer.current);
    timer.current = null;
    const id = event.target.value.trim();
    if (id) go(toInstance(id));
  };
  return html`<form ref=${form} class="filters" role="search" aria-label="Find instances" onSubmit=${(event) => event.preventDefault()}>
    <label class="grow">Instance id begins with
      <input name="id_prefix" type="search" defaultValue=${given.id_prefix} maxlength="255" autocomplete="off"
        autocapitalize="off" spellcheck=${false} placeholder="Enter opens it" onInput=${typed} onKeyDown=${open} /></label>
    <label>Status<select name="status" onChange=${now} value=${given.status}>
      <option value="">All</option>${STATUSES.map((status) =>
        html`<option value=${status} selected=${status === given.status}>${status.charAt(0) + status.slice(1).toLowerCase()}</option>`)}</select></label>
    <label>Orchestration<input name="name" list="known-names" defaultValue=${given.name} maxlength="255" autocomplete="off"
      onInput=${typed} /></label>
    <datalist id="known-names">${names.map((name) => html`<option value=${name} />`)}</datalist>
    <details open=${rare || undefined}><summary>More</summary><div class="more-filters">
      <label>Version<input name="version" list="known-versions" defaultValue=${given.version} autocomplete="off" onInput=${typed} /></label>
      <datalist id="known-versions">${versions.map((name) => html`<option value=${name} />`)}</datalist>
      <label>Tags, as key:value, …<input name="tag" defaultValue=${given.tag} autocomplete="off" onInput=${typed} /></label>
      ${Object.entries(TIMES).map(([field, label]) =>
        html`<label>${label}<input name=${field} type="datetime-local" defaultValue=${given[field]} onInput=${typed} /></label>`)}
    </div></details>
  </form>`;
}

function List({ given, wanted }) {
  const asked = JSON.stringify(given);
  // More pages were wanted of one list only.
  const [{ of, many }, setMany] = useState({ of: asked, many: 1 });
  const pages = of === asked ? many : 1;
  const [chosen, setChosen] = useState(new Set());
  const { value, error } = useLive(() => load(given, pages), [pages, asked], ["instances"]);
  const operates = useMay("operator");
  if (!value) return html`<${Problem} error=${error} />`;
  const { found, more } = value;
  const present = new Set(found.map((one) => one.instance_id).filter((id) => chosen.has(id)));
  const choose = (ids, on) => setChosen((before) => {
    const after = new Set(before);
    for (const id of ids) on ? after.add(id) : after.delete(id);
    return after;
  });
  const all = found.length > 0 && present.size === found.length;
  return html`
    <${Problem} error=${error} />
    ${operates && found.length > 0 && html`<${BulkActions} chosen=${[...present]} filter=${wanted ? query(given) : null}
      listed=${found.length} onDone=${() => setChosen(new Set())} />`}
    <p class="unseen" role="status">${count(found.length, "instance")} listed${more && ", and there are more"}</p>
    <div class="card flush">
      ${found.length > 0 && html`<table class="list"><thead><tr>
        ${operates && html`<th class="check"><input type="checkbox" aria-label="Choose all that are listed" checked=${all}
          onChange=${({ target }) => choose(found.map((one) => one.instance_id), target.checked)} /></th>`}
        <th scope="col">Instance</th><th scope="col">Status</th><th scope="col">Started</th>
        <th scope="col" class="roomy">Ended</th><th scope="col" class="roomy">Tags</th></tr></thead>
        <tbody>${found.map((one) => html`<${Row} key=${one.instance_id} one=${one} operates=${operates}
          chosen=${present.has(one.instance_id)} onChoose=${(on) => choose([one.instance_id], on)} />`)}</tbody></table>`}
      ${found.length === 0 && (wanted ? html`<p class="empty">No instances match.</p>` : html`<${First} />`)}
    </div>
    ${more && pages < MOST_PAGES && html`<button class="plain" type="button" onClick=${() => setMany({ of: asked, many: pages + 1 })}>Show more</button>`}
    ${more && pages >= MOST_PAGES && html`<p class="quiet">${count(found.length, "instance")} are shown. Filter to see others.</p>`}`;
}

function Row({ one, operates, chosen, onChoose }) {
  const id = one.instance_id;
  return html`<tr class=${chosen ? "chosen" : ""}>
    ${operates && html`<td class="check"><input type="checkbox" aria-label=${`Choose ${id}`} checked=${chosen}
      onChange=${({ target }) => onChoose(target.checked)} /></td>`}
    <td><a class="name" href=${toInstance(id)}>${id}</a><small>${one.name}${one.version !== "1" && ` · version ${one.version}`}</small></td>
    <td><${Badge} status=${one.status} /></td>
    <td><${Time} at=${one.created_at} /></td>
    <td class="roomy">${one.ended_at && html`<time title=${one.ended_at}>${moment(new Date(one.ended_at))}</time>`}</td>
    <td class="roomy">${Object.entries(one.tags).map(([key, value]) =>
      html`<button type="button" class="tag" onClick=${() => setFilters({ tag: `${key}:${value}` })}>${key}: ${value}</button>`)}</td>
  </tr>`;
}

function First() {
  const { orchestrations } = useDefinitions();
  const known = orchestrations[0]?.name;
  return html`<div class="empty">
    <p>No instances yet. ${known ? html`<a href="#/start">Start one</a> here, or by a call:`
      : html`Start the server with an app that declares an orchestration, <code>holdfast serve MODULE:APP</code>, then:`}</p>
    <pre tabindex="0">${curl(`orchestrations/${encodeURIComponent(known ?? "NAME")}/start`, '{"input": null}')}</pre></div>`;
}
