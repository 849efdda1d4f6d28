// The view of one queue: depth over time, what waits, what is locked, dead letters, configuration.
import { get, path, post, remove } from "../api.js";
import { AgeChart, Chart, RateChart } from "../chart.js";
import { age, count, label, number } from "../format.js";
import { Items, itemsOf } from "../items.js";
import { useLive } from "../live.js";
import { Card, Facts, Outcome, Problem, Time, Title, useAction } from "../parts.js";
import { useMay } from "../session.js";
import { html, useRef, useState } from "../view.js";
import { Config } from "./config.js";
import { DeadLetters } from "./dead_letters.js";
import { Popped } from "./popped.js";
import { QueueActions } from "./queue_actions.js";

const PEEKS = [10, 50, 100];
const PRIORITIES_SHOWN = 12;
const ITEMS_UNFOLDED = 4;
const DEAD_LETTER_SUFFIX = "-deadletter";
const BACK = { to: "#/queues", text: "All queues" };
const EXTEND_SECONDS = 60;

export function Queue({ name }) {
  const [peek, setPeek] = useState(PEEKS[0]);
  const kept = useRef({ seen: null });
  const { value, error } = useLive(() => load(name, peek, kept.current), [peek], [`queue:${name}`]);
  return html`<article class="view" aria-label=${name}>
    <${Title} back=${BACK}>${name}<//>
    <${QueueActions} queue=${name} stats=${value?.stats} />
    <${Problem} error=${error} />
    ${value?.stats.config.paused && html`<p class="card note">Paused: pops get nothing. Pushes are taken.</p>`}
    <${Popped} queue=${name} />
    ${value && html`<${Body} name=${name} ...${value} peek=${peek} onMore=${() => setPeek(PEEKS[PEEKS.indexOf(peek) + 1])} />`}
  </article>`;
}

// Items can be large: they are fetched only after a change of the queue's state.
async function load(name, peek, kept) {
  const [stats, samples] = await Promise.all([get(path`queue/${name}`), get(`samples?${path`queue=${name}`}`)]);
  const state = JSON.stringify([stats.count, stats.priorities, stats.locks, stats.counters, stats.dead_letters, peek]);
  if (state !== kept.seen) {
    const [waiting, locked] = await Promise.all([
      get(`${path`queue/${name}/peek`}?count=${peek}`), get(path`queue/${name}/in-flight`),
    ]);
    Object.assign(kept, { seen: state, waiting: itemsOf(waiting), locks: locked.locks });
  }
  return { stats, samples: samples.queues[name], interval: samples.interval_seconds, waiting: kept.waiting, locks: kept.locks };
}

function Body({ name, stats, samples, interval, waiting, locks, peek, onMore }) {
  const more = waiting.length < stats.count - stats.delayed;
  const target = stats.config.dead_letter_queue ?? name + DEAD_LETTER_SUFFIX;
  return html`
    <dl class="tiles">
      <div><dt>Waiting</dt><dd data-tile="waiting">${number(stats.count - stats.delayed)}</dd></div>
      <div><dt>Locked</dt><dd data-tile="locked">${number(stats.locked)}</dd></div>
      ${stats.delayed > 0 && html`<div><dt>Delayed</dt><dd data-tile="delayed">${number(stats.delayed)}</dd></div>`}
      <div><dt>Dead letters</dt><dd data-tile="dead" class=${stats.dead_letters > 0 ? "bad" : ""}>${number(stats.dead_letters)}</dd></div>
      <div><dt>Oldest</dt><dd>${stats.oldest_age_seconds === null ? "–" : age(stats.oldest_age_seconds)}</dd></div>
    </dl>
    <div class="halves"><div class="half">
      <${Card} title="Depth over the last hour" name="depth"><${Chart} name="Depth over time" at=${samples?.at ?? []}
        lines=${[{ name: "waiting", values: samples?.waiting ?? [] }, { name: "locked", values: samples?.locked ?? [], kind: "locked" }]} />
        <details class="more-charts"><summary>Rates and age</summary><${RateChart} samples=${samples} interval=${interval} />
          <${AgeChart} samples=${samples} /></details><//>
      <${Card} title="Next to be popped" name="peek" side=${more
        && html`<span class="quiet">${number(waiting.length)} of ${number(stats.count - stats.delayed)}</span>`}>
        <${Waiting} ...${{ name, waiting }} />
        ${more && peek !== PEEKS.at(-1) && html`<button class="plain" type="button" onClick=${onMore}>Show more</button>`}<//>
      <${DeadLetters} queue=${name} target=${target} many=${stats.dead_letters} holds=${name.endsWith(DEAD_LETTER_SUFFIX) && stats.count > 0} />
    </div><div class="half">
      <${Locks} name=${name} locks=${locks} stats=${stats} />
      <${Priorities} priorities=${stats.priorities} />
      <${Card} title="Counters"><${Facts} facts=${Object.entries(stats.counters).map(([key, many]) => [label(key), number(many)])} /><//>
      <${Config} queue=${name} config=${stats.config} />
    </div></div>`;
}

function Waiting({ name, waiting }) {
  const { run, outcome } = useAction();
  const uses = useMay("user");
  if (waiting.length === 0) return html`<p class="empty">No waiting items.</p><${Outcome} outcome=${outcome} />`;
  const revoke = (message) => run(async () => {
    await remove(path`queue/${name}/items/${message.id}`);
    return `Removed ${message.id}.`;
  });
  return html`<${Items} entries=${waiting} tools=${uses ? (message) => html`<div class="row">
    <button class="plain small" type="button" onClick=${() => revoke(message)}>Remove this item</button></div>` : undefined} />
    <${Outcome} outcome=${outcome} />`;
}

// A consumer may put its name into its locks: it comes before "~".
function ownerOf(prefix) {
  const [, owner] = prefix.match(/^(?:\d+\.)?(.*)~/) ?? [];
  return owner;
}

function Locks({ name, locks, stats }) {
  const { run, outcome } = useAction();
  const operates = useMay("operator");
  const few = locks.reduce((sum, lock) => sum + lock.count, 0) <= ITEMS_UNFOLDED;
  const act = (lock, call, body, done) => () => run(async () => {
    await post(path`queue/${name}/in-flight/${lock.lock_id_prefix}/${call}`, JSON.stringify(body));
    return done;
  });
  return html`<${Card} title="Locked now" name="locks" side=${stats.locks.length > 0 && html`<span class="quiet">${count(stats.locks.length, "lock")}</span>`}>
    ${locks.length === 0 && html`<p class="empty">No locks.</p>`}
    <ol class="locks">${locks.map((lock) => html`<li key=${lock.lock_id_prefix}><details open=${few || undefined}>
      <summary class="lock"><b>${ownerOf(lock.lock_id_prefix) ?? html`<code>${lock.lock_id_prefix}…</code>`}</b>
        <span>${count(lock.count, "item")}</span><${Time} at=${lock.expires_at} kind="left" /></summary>
      <div class="lock-body">${ownerOf(lock.lock_id_prefix) && html`<p class="quiet"><code>${lock.lock_id_prefix}…</code></p>`}
      <${Items} entries=${itemsOf(lock)} expected=${1} />
      ${operates && html`<div class="row">
        <button class="plain small" type="button" onClick=${act(lock, "requeue", {}, "The items are back in the queue.")}>Give back now</button>
        <button class="plain small" type="button" onClick=${act(lock, "extend", { additional_ttl_seconds: EXTEND_SECONDS }, "Extended.")}>Extend by ${EXTEND_SECONDS} s</button></div>`}
      </div></details></li>`)}</ol><${Outcome} outcome=${outcome} /><//>`;
}

function Priorities({ priorities }) {
  const all = Object.entries(priorities);
  const most = Math.max(1, ...all.map(([, many]) => many));
  return all.length > 0 && html`<${Card} title="Waiting per priority" name="by-priority"><ol class="priorities">${all.slice(0, PRIORITIES_SHOWN).map(([priority, many]) => html`
    <li key=${priority}><span class="priority">${priority}</span><span class="bar-room"><span class="bar-fill" style=${{ inlineSize: `${(100 * many) / most}%` }}></span></span>
      <span class="number">${number(many)}</span></li>`)}</ol>
    ${all.length > PRIORITIES_SHOWN && html`<p class="empty">and ${count(all.length - PRIORITIES_SHOWN, "priority", "priorities")} more</p>`}<//>`;
}

