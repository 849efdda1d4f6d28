// Items popped by this page: shown until dismissed, with the actions of their lock.
import { path, post } from "./api.js";
import { at, el, keep, tell } from "./dom.js";
import { itemKey, itemsOf, takenRow } from "./items.js";
import { count, live } from "./format.js";

const EXTEND_SECONDS = 30;
// By queue. Lost when the page is closed, and with it the ids of the locks.
const all = new Map();
let attempt;
let made = 0;

export function add(queue, answer) {
  made += 1;
  const pop = { number: made, queue, answer, until: answer.lock_expires_at };
  all.set(queue, [pop, ...(all.get(queue) ?? [])]);
  draw(queue);
}

export function draw(queue) {
  keep(at("popped"), all.get(queue) ?? [], (pop) => pop.number, card);
}

function dismiss(pop) {
  all.set(pop.queue, all.get(pop.queue).filter((other) => other !== pop));
  draw(pop.queue);
}

function card(pop) {
  const { answer, queue } = pop;
  const until = el("time");
  const output = el("output", { class: "wide" });
  const items = el("ol", { class: "items" });
  const row = el("div", { class: "row" });
  const said = el("p", { class: "lock" }, el("strong", {}, `Popped ${count(answer.count, "item")}`));
  const button = (text, action, kind = "plain") => {
    const shown = el("button", { type: "button", class: `${kind} small` }, text);
    shown.addEventListener("click", action);
    row.append(shown);
  };
  const end = (call) => () => attempt(output, async () => {
    const { message } = await post(path`queue/${queue}/${call}`, JSON.stringify({ lock_id: answer.lock_id }));
    finish(`${message}.`);
    return "";
  });
  // The lock has ended.
  const finish = (text) => {
    said.replaceChildren(el("strong", {}, text));
    row.replaceChildren();
    button("Dismiss", () => dismiss(pop));
  };
  if (answer.lock_id) {
    said.append(el("span", {}, "with a lock"), until);
    button("Acknowledge", end("acknowledge"), "");
    button("Abandon", end("abandon"));
    button(`Extend by ${EXTEND_SECONDS} s`, () => attempt(output, async () => {
      const body = JSON.stringify({ lock_id: answer.lock_id, additional_ttl_seconds: EXTEND_SECONDS });
      pop.until = (await post(path`queue/${queue}/extend-lock`, body)).lock_expires_at;
      draw(queue);
      return "";
    }));
    button("Dead-letter", end("dead-letter"));
  } else {
    said.append(el("span", {}, "removed from the queue: only this page still has them"));
  }
  button("Dismiss", () => dismiss(pop));
  keep(items, itemsOf(answer), itemKey, takenRow);
  const shown = el("section", { class: "card taking" }, said, items, row, output);
  tell(output, "");
  return [shown, () => pop.until && live(until, new Date(pop.until * 1000), "left")];
}

export function begin(theAttempt) {
  attempt = theAttempt;
}
