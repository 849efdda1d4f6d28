// The actions on a queue: push, pop, purge. One panel is open at a time.
import { path, post, remove } from "./api.js";
import { at, show, tell } from "./dom.js";
import * as popped from "./popped.js";
import { count, moment } from "./format.js";

// Each panel with the element that gets the focus. Never the purge button: an accidental key press must not purge.
const PANELS = { "push-panel": "push-item", "pop-panel": "pop-count", "purge-panel": "purge-cancel" };
let queue;
let waiting = 0;
let follower;

export function open(name) {
  queue = name;
  unfold(null);
  show("purge-question", "Counting…");
  at("purge-confirm").disabled = true;
  popped.draw(queue);
}

export function draw(stats) {
  waiting = stats.count;
  const some = waiting > 0;
  show("purge-question", some
    ? `Permanently removes the ${count(waiting, "waiting item")}. Locked items stay.`
    : "There are no waiting items to purge.");
  show("purge-confirm", some ? `Purge ${count(waiting, "item")}` : "Purge");
  at("purge-confirm").disabled = !some;
}

const buttonOf = (panel) => document.querySelector(`[data-panel="${panel}"]`);

function unfold(wanted) {
  for (const panel of Object.keys(PANELS)) {
    at(panel).hidden = panel !== wanted;
    buttonOf(panel).setAttribute("aria-expanded", String(panel === wanted));
    tell(at(panel).querySelector("output"), "");
  }
  if (wanted) at(PANELS[wanted]).focus();
}

// Runs an action and shows its outcome.
async function attempt(output, action) {
  try {
    tell(output, await action());
    follower.now();
  } catch (error) {
    const until = error.body?.lock_expires_at;
    const expiry = until ? ` The lock expires at ${moment(new Date(until * 1000))}.` : "";
    tell(output, `${error.message}${expiry}`, true);
  }
}

function push() {
  const text = at("push-item").value.trim();
  const output = at("push-answer");
  try {
    JSON.parse(text);
  } catch (error) {
    tell(output, `This is not JSON: ${error.message}`, true);
    return;
  }
  // Sends the text as typed: parsing and serializing it would lose digits of large numbers.
  const body = `{"item": ${text}, "priority": ${Number(at("push-priority").value)}}`;
  attempt(output, async () => `Pushed, with the id ${(await post(path`queue/${queue}/push`, body)).ids[0]}.`);
}

function pop() {
  const held = document.querySelector("[name=pop-how]:checked").value === "lock";
  const how = held ? `&require_ack=true&ttl_seconds=${Number(at("pop-ttl").value)}` : "";
  const from = queue;
  attempt(at("pop-answer"), async () => {
    const answer = await post(`${path`queue/${from}/pop`}?count=${Number(at("pop-count").value)}${how}`);
    if (answer.count === 0) return answer.paused ? "The queue is paused." : "There are no waiting items.";
    popped.add(from, answer);
    return "";
  });
}

function purge() {
  attempt(at("purge-answer"), async () =>
    `Purged ${count((await remove(path`queue/${queue}/items`)).purged, "item")}.`);
}

function fold() {
  const unfolded = Object.keys(PANELS).find((panel) => !at(panel).hidden);
  if (!unfolded) return;
  unfold(null);
  buttonOf(unfolded).focus();
}

export function begin(theFollower) {
  follower = theFollower;
  popped.begin(attempt);
  for (const panel of Object.keys(PANELS)) {
    buttonOf(panel).addEventListener("click", () => unfold(at(panel).hidden ? panel : null));
    at(panel).addEventListener("keydown", ({ key }) => key === "Escape" && fold());
  }
  const onSubmit = (form, action) => at(form).addEventListener("submit", (event) => {
    event.preventDefault();
    action();
  });
  onSubmit("push-panel", push);
  onSubmit("pop-panel", pop);
  at("push-item").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) at("push-panel").requestSubmit();
  });
  at("purge-confirm").addEventListener("click", purge);
  at("purge-cancel").addEventListener("click", fold);
}
