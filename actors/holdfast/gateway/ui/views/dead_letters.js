// The dead letters of a queue with reason and error; redrives and deletes one, the chosen ones, or all that match.
import { get, path, post } from "../api.js";
import { count, moment, number } from "../format.js";
import { useLive } from "../live.js";
import { Card, Confirm, Facts, factsOf, Outcome, Payload, Problem, useAction } from "../parts.js";
import { toQueue } from "../route.js";
import { useMay } from "../session.js";
import { html, useState } from "../view.js";

const PAGE = 50;
const IN_ROW = ["id", "item", "reason", "last_error", "dead_lettered_at"];
const CALLS = {
  redrive: { where: (queue) => path`queue/${queue}/redrive`, key: "redriven", done: "redriven" },
  delete: { where: (queue) => path`queue/${queue}/dead-letters/delete`, key: "deleted", done: "deleted" },
};

export function DeadLetters({ queue, target, many, holds }) {
  const [pages, setPages] = useState(1);
  const { value, error } = useLive(() => load(queue, many > 0 || holds ? pages : 0), [pages, many], [`queue:${queue}`]);
  const letters = value?.letters ?? [];
  const [chosen, setChosen] = useState(new Set());
  const [asked, setAsked] = useState(null);
  const [part, setPart] = useState("");
  const { run, outcome, busy } = useAction();
  const operates = useMay("operator");
  const present = letters.filter(({ id }) => chosen.has(id)).map(({ id }) => id);
  const act = (action, selected) => run(async (progress) => {
    setAsked(null);
    const done = await send(queue, action, selected, progress);
    setChosen(new Set());
    return `${count(done, "dead letter")} ${CALLS[action].done}.`;
  });
  const choose = (id, on) => setChosen((before) => {
    const after = new Set(before);
    on ? after.add(id) : after.delete(id);
    return after;
  });
  if (letters.length === 0 && !error && !outcome.text) return null;
  const whole = part ? { filter: { error_contains: part } } : {};
  const which = part ? "those whose error contains the text" : "all";
  return html`<${Card} title="Dead letters" name="dead-letters" side=${target !== queue && html`<a href=${toQueue(target)}>${target}</a>`}>
    <${Problem} error=${error} />
    ${operates && letters.length > 0 && html`<div class="row letters-tools" role="group" aria-label="Actions on dead letters">
      <button type="button" class="plain small" disabled=${busy || !present.length} onClick=${() => act("redrive", { ids: present })}>Redrive ${number(present.length)} chosen</button>
      <button type="button" class="plain small" disabled=${busy || !present.length} onClick=${() => setAsked({ action: "delete", selected: { ids: present }, text: `${count(present.length, "dead letter")}` })}>Delete chosen</button>
      <label class="inline">Error contains <input type="search" autocomplete="off" onInput=${({ target: field }) => setPart(field.value.trim())} /></label>
      <button type="button" class="plain small" disabled=${busy} onClick=${() => act("redrive", whole)}>Redrive ${which}</button>
      <button type="button" class="plain small" disabled=${busy} onClick=${() => setAsked({ action: "delete", selected: whole, text: `the dead letters, ${which}`, typed: queue })}>Delete ${which}</button></div>`}
    ${asked && html`<div role="group" aria-label="Confirm"><${Confirm} text=${`Permanently deletes ${asked.text}.`} typed=${asked.typed} button="Delete for good"
      keep="Keep them" close=${() => setAsked(null)} onConfirm=${() => act("delete", asked.selected)} /></div>`}
    <ol class="letters">${letters.map((letter) => html`<${Letter} key=${letter.id} ...${{ letter, operates, busy }} chosen=${chosen.has(letter.id)}
      onChoose=${(on) => choose(letter.id, on)} onRedrive=${() => act("redrive", { ids: [letter.id] })}
      onDelete=${() => setAsked({ action: "delete", selected: { ids: [letter.id] }, text: "one dead letter" })} />`)}</ol>
    ${value?.more && html`<button class="plain" type="button" onClick=${() => setPages(pages + 1)}>Show more</button>`}
    <${Outcome} outcome=${outcome} /><//>`;
}

async function load(queue, pages) {
  const letters = [];
  let cursor;
  for (let page = 0; page < pages; page += 1) {
    const answer = await get(`${path`queue/${queue}/dead-letters`}?limit=${PAGE}${cursor ? path`&cursor=${cursor}` : ""}`);
    letters.push(...answer.dead_letters);
    cursor = answer.next_cursor;
    if (!cursor) break;
  }
  return { letters, more: Boolean(cursor) };
}

// One call takes a bounded time; it is repeated until all are done.
async function send(queue, action, selected, progress) {
  const { where, key } = CALLS[action];
  let done = 0;
  for (let cursor; ;) {
    const answer = await post(where(queue), JSON.stringify(cursor ? { ...selected, cursor } : selected));
    done += answer[key];
    cursor = answer.next_cursor;
    if (!answer.more || (answer[key] === 0 && !cursor)) return done;
    progress(`${number(done)} done…`);
  }
}

function Letter({ letter, operates, busy, chosen, onChoose, onRedrive, onDelete }) {
  return html`<li class=${chosen ? "chosen" : ""}>
    ${operates && html`<input type="checkbox" aria-label=${`Choose ${letter.id}`} checked=${chosen} onChange=${({ target }) => onChoose(target.checked)} />`}
    <details><summary><span class="reason">${letter.reason ?? "no reason given"}</span>
      <span class="error">${letter.last_error ?? ""}</span>
      <time title=${letter.dead_lettered_at}>${moment(new Date(letter.dead_lettered_at))}</time></summary>
      <div class="item-body"><${Payload} value=${letter.item} name="Item" /><${Facts} facts=${factsOf(letter, IN_ROW)} />
      ${operates && html`<div class="row"><button class="plain small" type="button" disabled=${busy} onClick=${onRedrive}>Redrive</button>
        <button class="plain small" type="button" disabled=${busy} onClick=${onDelete}>Delete…</button></div>`}</div></details></li>`;
}
