// Items as rows that unfold to the payload and the metadata.
import { count, number } from "./format.js";
import { Facts, factsOf, Payload, Time } from "./parts.js";
import { html } from "./view.js";

const PREVIEW = 200;

export const itemsOf = (answer) => answer.messages.map((message, place) => ({ message, item: answer.items[place] }));

// The delivery count is shown above `expected`: 0 for waiting items, 1 for popped ones. `tools` makes buttons of an item.
export function Items({ entries, expected = 0, tools }) {
  return html`<ol class="items">${entries.map((entry) =>
    html`<${Item} key=${entry.message.id} ...${entry} expected=${expected} tools=${tools} />`)}</ol>`;
}

function Item({ message, item, expected, tools }) {
  const { dead_letter: origin, ...own } = message;
  const again = message.delivery_count > expected ? `${number(message.delivery_count)}×` : "";
  return html`<li><details><summary>
    <span class="priority" title="priority">${message.priority}</span>
    <code>${JSON.stringify(item).slice(0, PREVIEW)}</code>
    ${again && html`<span class="again" title=${`delivered ${count(message.delivery_count, "time")}`}>${again}</span>`}
    <${Time} at=${message.enqueued_at} /></summary>
    <div class="item-body"><${Payload} value=${item} name="Item" />
      <${Facts} facts=${factsOf({ ...own, ...origin }, ["priority"])} />${tools?.(message)}</div></details></li>`;
}
