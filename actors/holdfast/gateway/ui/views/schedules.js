// Schedules: the list with next and last ticks, one schedule with its actions, and the form that makes or changes one.
import { get, path, post, put, remove } from "../api.js";
import { count, moment } from "../format.js";
import { useLive } from "../live.js";
import { Badge, Card, Confirm, Facts, Form, JsonField, jsonOf, Outcome, Payload, Problem, Time, Title, Tools, useAction } from "../parts.js";
import { go, toInstance, toInstances, toSchedule } from "../route.js";
import { useMay } from "../session.js";
import { html } from "../view.js";
import { Names, useDefinitions } from "./definitions.js";

const BACK = { to: "#/schedules", text: "All schedules" };
const PAGE = 100;
const MOST = 1000;

async function load() {
  const found = [];
  for (let cursor; found.length < MOST;) {
    const answer = await get(`schedules?limit=${PAGE}${cursor ? path`&cursor=${cursor}` : ""}`);
    found.push(...answer.schedules);
    cursor = answer.next_cursor;
    if (!cursor) break;
  }
  return found;
}

const every = (one) => one.cron ? `${one.cron} (${one.timezone})` : `every ${count(one.every_seconds, "second")}`;

export function Schedules() {
  const { value, error } = useLive(load, []);
  const { run, outcome } = useAction();
  const operates = useMay("operator");
  const make = { name: "new", text: "New schedule", panel: ({ close }) => html`<${Edit} run=${run} close=${close} />` };
  return html`<${Title}>Schedules<//>${operates && html`<${Tools} title="Actions" actions=${[make]} />`}
    <${Outcome} outcome=${outcome} /><${Problem} error=${error} />
    ${value && html`<div class="card flush">${value.length ? html`<table class="list"><thead><tr><th scope="col">Name</th><th scope="col" class="roomy">When</th>
      <th scope="col">Next</th><th scope="col">Last</th></tr></thead><tbody>${value.map((one) => html`<tr key=${one.name}>
        <td><a class="name" href=${toSchedule(one.name)}>${one.name}</a><small>${one.orchestration}</small></td>
        <td class="roomy">${every(one)}</td>
        <td>${one.paused ? html`<span class="badge paused">paused</span>` : one.next_at[0] ? html`<${Time} at=${one.next_at[0]} kind="ahead" />` : "never"}</td>
        <td><${Tick} tick=${one.last[0]} /></td></tr>`)}</tbody></table>`
    : html`<div class="empty"><p>No schedules yet. ${operates ? "Make one above" : "An operator can make one"}, or declare one in code:</p>
        <pre tabindex="0">${'@app.schedule("0 6 * * *", timezone="Europe/Berlin")\n@app.orchestration\nasync def nightly(ctx: Context) -> None: ...'}</pre></div>`}</div>`}`;
}

function Tick({ tick }) {
  if (!tick) return "–";
  if (tick.error) return html`<span class="bad" title=${tick.error}>not started</span>`;
  if (!tick.instance_id) return html`<span class="quiet">skipped</span>`;
  return html`<a href=${toInstance(tick.instance_id)} title=${tick.at}><${Badge} status=${tick.status} /></a>`;
}

export function Schedule({ name }) {
  const { value, error } = useLive(() => get(path`schedules/${name}`), []);
  const { run, outcome } = useAction();
  const operates = useMay("operator");
  const call = (what, done) => () => run(async () => {
    const answer = await post(path`schedules/${name}/${what}`);
    return answer.instance_id ? `Started ${answer.instance_id}.` : done;
  });
  const actions = value && operates ? [
    { name: "trigger", text: "Start one now", run: call("trigger", "Started.") },
    value.paused ? { name: "resume", text: "Resume", run: call("resume", "Resumed.") } : { name: "pause", text: "Pause", run: call("pause", "Paused.") },
    { name: "edit", text: "Change", panel: ({ close }) => html`<${Edit} schedule=${value} run=${run} close=${close} />` },
    { name: "backfill", text: "Backfill", panel: ({ close }) => html`<${Backfill} name=${name} run=${run} close=${close} />` },
    { name: "delete", text: "Delete", panel: ({ close }) => html`<${Confirm} close=${close} button="Delete it" keep="Keep it"
      text="Deletes the schedule. Its instances stay." onConfirm=${() => run(async () => {
        await remove(path`schedules/${name}`);
        go("#/schedules");
        return "Deleted.";
      })} />` },
  ] : [];
  return html`<article class="view" aria-label=${name}><${Title} back=${BACK}>${name}<//>
    <${Tools} title="Schedule actions" actions=${actions} /><${Outcome} outcome=${outcome} /><${Problem} error=${error} />
    ${value && html`${value.paused && html`<p class="card note">Paused${value.paused_reason && `: ${value.paused_reason}`}</p>`}
      <div class="halves"><div class="half">
        <${Card} title="Last ticks" name="last">${value.last.length ? html`<ul class="rows">${value.last.map((tick) => html`
          <li key=${tick.at}><span>${moment(new Date(tick.at))}</span>${tick.instance_id && html`<a href=${toInstance(tick.instance_id)}>${tick.instance_id}</a>`}
            <${Tick} tick=${tick} />${tick.error && html`<span class="bad">${tick.error}</span>`}</li>`)}</ul>` : html`<p class="empty">None yet.</p>`}<//>
        <${Card} title="Next ticks" name="next">${value.next_at.length ? html`<ul class="rows">${value.next_at.map((at) => html`
          <li key=${at}><span>${moment(new Date(at))}</span><${Time} at=${at} kind="ahead" /></li>`)}</ul>` : html`<p class="empty">None.</p>`}<//>
      </div><div class="half"><${Card} title="Definition" name="definition"><${Facts} facts=${[
        ["When", every(value)], ["Orchestration", html`<a href=${toInstances({ name: value.orchestration })}>${value.orchestration}</a>`],
        ["Overlap", value.overlap], ["Catch up", `${value.catch_up_seconds} s`], ["Jitter", `${value.jitter_seconds} s`],
        ["Declared in code", value.declared ? "yes" : "no"], ["Missed ticks", String(value.missed)]]} />
        <p class="quiet">Input</p><${Payload} value=${value.input} name="Input" /><//></div></div>`}</article>`;
}

function Edit({ schedule, run, close }) {
  const { orchestrations } = useDefinitions();
  const save = async (fields) => {
    const done = await run(async () => {
      const when = fields.get("when").trim();
      const seconds = /^\d+$/.test(when);
      const kept = schedule ? { tags: schedule.tags, starts_at: schedule.starts_at, ends_at: schedule.ends_at, paused: schedule.paused } : {};
      const body = JSON.stringify({
        ...Object.fromEntries(Object.entries(kept).filter(([, value]) => value !== undefined && value !== null)),
        orchestration: fields.get("orchestration").trim(), ...(seconds ? { every_seconds: Number(when) } : { cron: when }),
        timezone: fields.get("timezone").trim(), overlap: fields.get("overlap"), catch_up_seconds: Number(fields.get("catch")),
        jitter_seconds: Number(fields.get("jitter")),
      });
      const name = schedule?.name ?? fields.get("name").trim();
      await put(path`schedules/${name}`, `${body.slice(0, -1)}, "input": ${jsonOf(fields.get("input"))}}`);
      return `Saved ${name}.`;
    });
    if (done) close();
  };
  const field = (title, name, value, more = {}) => html`<label>${title}<input name=${name} defaultValue=${value} autocomplete="off" ...${more} /></label>`;
  return html`<${Form} title="Schedule" onSubmit=${save}>
    ${!schedule && field("Name", "name", "", { required: true, "data-first": true })}
    ${field("Orchestration", "orchestration", schedule?.orchestration ?? orchestrations[0]?.name ?? "", { required: true, list: "scheduled" })}
    <${Names} id="scheduled" names=${orchestrations.map((one) => one.name)} />
    ${field("Cron, or seconds", "when", schedule?.cron ?? schedule?.every_seconds ?? "0 6 * * *", { required: true })}
    ${field("Time zone", "timezone", schedule?.timezone ?? "UTC")}
    <label>If the last one still runs<select name="overlap" defaultValue=${schedule?.overlap ?? "skip"}>${["skip", "allow", "buffer_one", "cancel_previous"].map((one) =>
      html`<option value=${one} selected=${one === (schedule?.overlap ?? "skip")}>${one.replace("_", " ")}</option>`)}</select></label>
    ${field("Catch up, seconds", "catch", schedule?.catch_up_seconds ?? 60, { type: "number", min: 0 })}
    ${field("Jitter, seconds", "jitter", schedule?.jitter_seconds ?? 0, { type: "number", min: 0 })}
    <${JsonField} title="Input, as JSON" name="input" value=${JSON.stringify(schedule?.input ?? null)} />
    <button>Save</button><button class="plain" type="button" onClick=${close}>Cancel</button><//>`;
}

function Backfill({ name, run, close }) {
  const submit = async (fields) => {
    const [from, to] = ["from", "to"].map((end) => new Date(fields.get(end)).toISOString());
    if (await run(async () => `${count((await post(path`schedules/${name}/backfill`, JSON.stringify({ from, to }))).ticks, "tick")} started.`)) close();
  };
  return html`<${Form} title="Backfill" onSubmit=${submit}><p class="wide">Starts the instances of past ticks, each once.</p>
    <label>From <input type="datetime-local" name="from" required data-first /></label><label>To <input type="datetime-local" name="to" required /></label>
    <button>Start them</button><//>`;
}
