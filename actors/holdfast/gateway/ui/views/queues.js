// The list of queues, each with its depth over the last hour.
import { get, path } from "../api.js";
import { Sparkline } from "../chart.js";
import { curl, number } from "../format.js";
import { useLive } from "../live.js";
import { Problem, Title } from "../parts.js";
import { toQueue } from "../route.js";
import { html, useState } from "../view.js";

const PAGE = 50;
// Of one request for samples.
const MOST_SAMPLED = 100;

export async function loadQueues(wanted) {
  const found = [];
  let cursor;
  // A page may have fewer queues than requested, when they have many partitions.
  while (found.length < wanted) {
    const answer = await get(`queues?limit=${PAGE}${cursor ? path`&cursor=${cursor}` : ""}`);
    found.push(...answer.queues);
    cursor = answer.next_cursor;
    if (!cursor) break;
  }
  return { found, more: Boolean(cursor) };
}

async function load(wanted) {
  const { found, more } = await loadQueues(wanted);
  const asked = found.slice(0, MOST_SAMPLED).map(({ queue }) => path`queue=${queue}`).join("&");
  const samples = found.length ? (await get(`samples?${asked}`)).queues : {};
  return { found, more, samples };
}

export function Queues() {
  const [pages, setPages] = useState(1);
  const [wanted, setWanted] = useState("");
  const { value, error } = useLive(() => load(pages * PAGE), [pages], ["queues"]);
  const open = (event) => {
    event.preventDefault();
    if (wanted.trim()) location.hash = toQueue(wanted.trim());
  };
  const shown = value?.found.filter(({ queue }) => queue.toLowerCase().includes(wanted.trim().toLowerCase())) ?? [];
  return html`<${Title}>Queues<//>
    <form class="filters" role="search" aria-label="Find queues" onSubmit=${open}>
      <label class="grow">Name <input type="search" placeholder="Enter opens it, also a new one" maxlength="255" autocomplete="off"
        autocapitalize="off" spellcheck=${false} onInput=${({ target }) => setWanted(target.value)} /></label></form>
    <${Problem} error=${error} />
    ${value && html`<div class="card flush">
      ${shown.length > 0 && html`<table class="list queues"><thead><tr><th scope="col">Name</th><th scope="col" class="roomy">Last hour</th>
        <th scope="col" class="number">Waiting</th><th scope="col" class="number">Locked</th><th scope="col" class="number">Dead letters</th></tr></thead>
        <tbody>${shown.map((one) => html`<${Row} key=${one.queue} one=${one} samples=${value.samples[one.queue]} />`)}</tbody></table>`}
      ${value.found.length === 0 && html`<div class="empty"><p>No queues yet. The first push creates a queue:</p>
        <pre tabindex="0">${curl("queue/orders/push", '{"item": {"id": 1}}')}</pre>
        <p>Or open <a href=${toQueue("orders")}>orders</a> here and push to it.</p></div>`}
      ${value.found.length > 0 && shown.length === 0 && html`<p class="empty">No match among the listed queues. Press Enter to open the queue of this name.</p>`}</div>
      ${value.more && html`<button class="plain" type="button" onClick=${() => setPages(pages + 1)}>Show more</button>`}`}`;
}

function Row({ one, samples }) {
  const figure = (many, kind) => html`<td class=${`number ${kind} ${many === 0 ? "none" : ""}`}>${number(many)}</td>`;
  return html`<tr><td><a class="name" href=${toQueue(one.queue)}>${one.queue}</a></td>
    <td class="roomy"><${Sparkline} at=${samples?.at ?? []} values=${samples?.waiting ?? []} /></td>
    ${one.error ? html`<td class="bad" colspan="3">damaged</td>`
      : html`${figure(one.count, "")}${figure(one.locked, "locked")}${figure(one.dead_letters, "dead")}`}</tr>`;
}
