// What can be done with a queue: push, pop, purge. One of them is open at a time.
import { path, post, remove } from "./api.js";
import { at, show, tell } from "./dom.js";
import * as takings from "./takings.js";
import { count, moment } from "./words.js";

// Each with what gets the focus. It is not the button that purges: a key pressed once too often must not.
const PANELS = { "push-panel": "push-item", "pop-panel": "pop-count", "purge-panel": "purge-cancel" };
let queue;
let waiting = 0;
let follower;

export function open(name) {
  queue = name;
  unfold(null);
  show("purge-question", "Counting…");
  at("purge-confirm").disabled = true;
  takings.draw(queue);
}

export function draw(stats) {
  waiting = stats.count;
  const some = waiting > 0;
  show("purge-question", some
    ? `Purging removes the ${count(waiting, "item")} that ${waiting === 1 ? "waits" : "wait"} here, for good. What is locked stays.`
    : "Nothing waits here, so that there is nothing to purge.");
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

// Does it, and says how it went.
async function attempt(output, deed) {
  try {
    tell(output, await deed());
    follower.now();
  } catch (error) {
    const until = error.body?.lock_expires_at;
    tell(output, until ? `${error.message} It is until ${moment(new Date(until * 1000))}.` : error.message, true);
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
  // The text itself: reading and writing it again would lose digits of large numbers.
  const body = `{"item": ${text}, "priority": ${Number(at("push-priority").value)}}`;
  attempt(output, async () => `Pushed, with the id ${(await post(path`queue/${queue}/push`, body)).ids[0]}.`);
}

function pop() {
  const held = document.querySelector("[name=pop-how]:checked").value === "lock";
  const how = held ? `&require_ack=true&ttl_seconds=${Number(at("pop-ttl").value)}` : "";
  const from = queue;
  attempt(at("pop-answer"), async () => {
    const answer = await post(`${path`queue/${from}/pop`}?count=${Number(at("pop-count").value)}${how}`);
    if (answer.count === 0) return "Nothing waits here.";
    takings.add(from, answer);
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
  takings.begin(attempt);
  for (const panel of Object.keys(PANELS)) {
    buttonOf(panel).addEventListener("click", () => unfold(at(panel).hidden ? panel : null));
    at(panel).addEventListener("keydown", ({ key }) => key === "Escape" && fold());
  }
  const onSubmit = (form, deed) => at(form).addEventListener("submit", (event) => {
    event.preventDefault();
    deed();
  });
  onSubmit("push-panel", push);
  onSubmit("pop-panel", pop);
  at("push-item").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) at("push-panel").requestSubmit();
  });
  at("purge-confirm").addEventListener("click", purge);
  at("purge-cancel").addEventListener("click", fold);
}
