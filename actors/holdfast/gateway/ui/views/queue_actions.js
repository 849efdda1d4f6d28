// The actions on a queue: push, pop, pause, purge, delete.
import { path, post, put, remove } from "../api.js";
import { count } from "../format.js";
import { Confirm, Form, JsonField, jsonOf, Outcome, Tools, useAction } from "../parts.js";
import { go } from "../route.js";
import { useMay } from "../session.js";
import { html, useId } from "../view.js";
import { add } from "./popped.js";

export function QueueActions({ queue, stats }) {
  const { run, outcome } = useAction();
  const uses = useMay("user");
  const operates = useMay("operator");
  const paused = stats?.config.paused;
  const pause = (on) => () => run(async () => {
    await put(path`queue/${queue}/config`, JSON.stringify({ paused: on }));
    return on ? "Paused." : "Resumed.";
  });
  const actions = [
    uses && { name: "push", text: "Push", panel: () => html`<${Push} ...${{ queue, run }} />` },
    uses && { name: "pop", text: "Pop", panel: () => html`<${Pop} ...${{ queue, run }} />` },
    operates && stats && !paused && { name: "pause", text: "Pause", run: pause(true) },
    operates && paused && { name: "resume", text: "Resume", run: pause(false) },
    operates && stats && { name: "purge", text: "Purge", panel: ({ close }) => html`<${Confirm} typed=${queue} close=${close}
      button=${`Purge ${count(stats.count, "item")}`} keep="Keep them"
      text=${`Permanently removes the ${count(stats.count, "item")} that wait or are delayed. Locked items stay.`}
      onConfirm=${async () => await run(async () => `Purged ${count((await remove(path`queue/${queue}/items`)).purged, "item")}.`) && close()} />` },
    operates && stats && { name: "delete", text: "Delete", panel: ({ close }) => html`<${Confirm} typed=${queue} close=${close}
      button="Delete the queue" keep="Keep it" text="Permanently removes the queue with its items, locks and configuration."
      onConfirm=${() => run(async () => {
        await remove(`${path`queue/${queue}`}?force=true`);
        go("#/queues");
        return "Deleted.";
      })} />` },
  ].filter(Boolean);
  return html`<${Tools} title="Queue actions" actions=${actions} /><${Outcome} outcome=${outcome} />`;
}

function Push({ queue, run }) {
  const push = (fields) => run(async () => {
    // Sends the text as typed: parsing and serializing it would lose digits of large numbers.
    const body = `{"item": ${jsonOf(fields.get("item"))}, "priority": ${Number(fields.get("priority"))}, "delay_seconds": ${Number(fields.get("delay"))}}`;
    return `Pushed, with the id ${(await post(path`queue/${queue}/push`, body)).ids[0]}.`;
  });
  return html`<${Form} title="Push an item" onSubmit=${push}>
    <${JsonField} title="Item, as JSON" name="item" value='{"hello": "world"}' first />
    <label>Priority, lowest first <input name="priority" type="number" min="0" step="1" defaultValue="0" inputmode="numeric" required /></label>
    <label>Delay in seconds <input name="delay" type="number" min="0" step="any" defaultValue="0" inputmode="decimal" required /></label>
    <button>Push it</button><//>`;
}

function Pop({ queue, run }) {
  const id = useId();
  const pop = (fields) => run(async () => {
    const how = fields.get("how") === "lock" ? `&require_ack=true&ttl_seconds=${Number(fields.get("ttl"))}` : "";
    const answer = await post(`${path`queue/${queue}/pop`}?count=${Number(fields.get("count"))}${how}`);
    if (answer.count === 0) return answer.paused ? "The queue is paused." : "There are no waiting items.";
    add(queue, answer);
    return "";
  });
  return html`<${Form} title="Pop items" onSubmit=${pop}>
    <label>How many <input name="count" type="number" min="1" max="100" step="1" defaultValue="1" inputmode="numeric" required data-first /></label>
    <fieldset><legend class="unseen">How</legend>
      <span class="choice"><input type="radio" name="how" value="lock" id=${`${id}l`} defaultChecked /><label for=${`${id}l`}>with a lock for</label>
        <input name="ttl" type="number" min="1" max="300" step="1" defaultValue="30" inputmode="numeric" aria-label="Lock duration in seconds" required /> seconds</span>
      <label class="choice"><input type="radio" name="how" value="take" /> without a lock, removed at once</label></fieldset>
    <button>Pop</button><//>`;
}
