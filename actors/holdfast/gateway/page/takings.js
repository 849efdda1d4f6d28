// What this page popped: shown until it is put away, and acknowledged or given back where it is held under a lock.
import { path, post } from "./api.js";
import { at, el, keep, tell } from "./dom.js";
import { itemKey, itemsOf, takenRow } from "./items.js";
import { count, live } from "./words.js";

const EXTEND_SECONDS = 30;
// For each queue; only as long as the page is open, as nobody else has the locks' ids.
const all = new Map();
let attempt;
let made = 0;

export function add(queue, answer) {
  made += 1;
  const taking = { number: made, queue, answer, until: answer.lock_expires_at };
  all.set(queue, [taking, ...(all.get(queue) ?? [])]);
  draw(queue);
}

export function draw(queue) {
  keep(at("takings"), all.get(queue) ?? [], (taking) => taking.number, card);
}

function putAway(taking) {
  all.set(taking.queue, all.get(taking.queue).filter((other) => other !== taking));
  draw(taking.queue);
}

function card(taking) {
  const { answer, queue } = taking;
  const until = el("time");
  const output = el("output", { class: "wide" });
  const items = el("ol", { class: "items" });
  const row = el("div", { class: "row" });
  const said = el("p", { class: "lock" }, el("strong", {}, `Popped ${count(answer.count, "item")}`));
  const button = (text, deed, kind = "plain") => {
    const shown = el("button", { type: "button", class: `${kind} small` }, text);
    shown.addEventListener("click", deed);
    row.append(shown);
  };
  const end = (call) => () => attempt(output, async () => {
    const { message } = await post(path`queue/${queue}/${call}`, JSON.stringify({ lock_id: answer.lock_id }));
    finish(`${message}.`);
    return "";
  });
  // Nothing more can be done under this lock.
  const finish = (text) => {
    said.replaceChildren(el("strong", {}, text));
    row.replaceChildren();
    button("Put away", () => putAway(taking));
  };
  if (answer.lock_id) {
    said.append(el("span", {}, "under a lock"), until);
    button("Acknowledge", end("acknowledge"), "");
    button("Give back", end("abandon"));
    button(`Hold ${EXTEND_SECONDS} s longer`, () => attempt(output, async () => {
      const body = JSON.stringify({ lock_id: answer.lock_id, additional_ttl_seconds: EXTEND_SECONDS });
      taking.until = (await post(path`queue/${queue}/extend-lock`, body)).lock_expires_at;
      draw(queue);
      return "";
    }));
    button("To dead letters", end("dead-letter"));
  } else {
    said.append(el("span", {}, "for good: this is the only place where it still is"));
  }
  button("Put away", () => putAway(taking));
  keep(items, itemsOf(answer), itemKey, takenRow);
  const shown = el("section", { class: "card taking" }, said, items, row, output);
  tell(output, "");
  return [shown, () => taking.until && live(until, new Date(taking.until * 1000), "left")];
}

export function begin(theAttempt) {
  attempt = theAttempt;
}
