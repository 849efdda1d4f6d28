// Items popped by this page: shown until dismissed, with the actions of their lock.
import { path, post } from "../api.js";
import { count } from "../format.js";
import { Items, itemsOf } from "../items.js";
import { Outcome, Time, useAction } from "../parts.js";
import { html, useEffect, useState } from "../view.js";

const EXTEND_SECONDS = 30;
// By queue. Lost when the page is closed, and with it the ids of the locks.
const all = new Map();
const listeners = new Set();
let made = 0;

function change(queue, pops) {
  all.set(queue, pops);
  for (const listener of listeners) listener();
}

export function add(queue, answer) {
  made += 1;
  change(queue, [{ number: made, answer, until: answer.lock_expires_at, ended: null }, ...(all.get(queue) ?? [])]);
}

export function Popped({ queue }) {
  const [, redraw] = useState(0);
  useEffect(() => {
    const listener = () => redraw((n) => n + 1);
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, []);
  const pops = all.get(queue) ?? [];
  const update = (pop, changes) => change(queue, pops.map((other) => (other === pop ? { ...pop, ...changes } : other)));
  return html`<div class="popped" role="log" aria-label="Items popped by this page">${pops.map((pop) => html`
    <${Pop} key=${pop.number} queue=${queue} pop=${pop} onChange=${(changes) => update(pop, changes)}
      onDismiss=${() => change(queue, pops.filter((other) => other !== pop))} />`)}</div>`;
}

function Pop({ queue, pop, onChange, onDismiss }) {
  const { run, outcome } = useAction();
  const { answer } = pop;
  const lock = { lock_id: answer.lock_id };
  const end = (call) => () => run(async () => {
    const { message } = await post(path`queue/${queue}/${call}`, JSON.stringify(lock));
    onChange({ ended: `${message}.` });
    return "";
  });
  const extend = () => run(async () => {
    const { lock_expires_at: until } = await post(path`queue/${queue}/extend-lock`,
      JSON.stringify({ ...lock, additional_ttl_seconds: EXTEND_SECONDS }));
    onChange({ until });
    return "";
  });
  const button = (text, action, kind = "plain") => html`<button type="button" class=${`${kind} small`} onClick=${action}>${text}</button>`;
  return html`<section class="card taking" aria-label="Popped">
    <p class="lock"><b>${pop.ended ?? `Popped ${count(answer.count, "item")}`}</b>
      ${!pop.ended && (answer.lock_id ? html`<span>with a lock</span><${Time} at=${pop.until * 1000} kind="left" />`
        : html`<span>removed from the queue: only this page still has them</span>`)}</p>
    <${Items} entries=${itemsOf(answer)} expected=${1} />
    <div class="row">${answer.lock_id && !pop.ended && html`${button("Acknowledge", end("acknowledge"), "")}
      ${button("Abandon", end("abandon"))}${button(`Extend by ${EXTEND_SECONDS} s`, extend)}${button("Dead-letter", end("dead-letter"))}`}
      ${button("Dismiss", onDismiss)}</div><${Outcome} outcome=${outcome} /></section>`;
}
