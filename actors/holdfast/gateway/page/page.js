// The page: which view is shown, and what is looked at again and again.
import { token, Unreachable } from "./api.js";
import { at, show } from "./dom.js";
import * as entry from "./entry.js";
import { Follower } from "./live.js";
import * as overview from "./overview.js";
import * as queue from "./queue.js";
import { interrupt } from "./series.js";
import * as server from "./server.js";

let shown = null;
const follower = new Follower(look);

async function look() {
  const tries = await Promise.allSettled([server.refresh(), overview.refresh(), queue.refresh()]);
  const errors = tries.filter((one) => one.status === "rejected").map((one) => one.reason);
  const unreachable = errors.find((error) => error instanceof Unreachable);
  const closed = errors.find((error) => error.status === 401);
  if (unreachable) {
    interrupt();
    show("state", "not connected");
    at("state").className = "state bad";
  } else if (closed) {
    follower.stop();
    entry.ask(token.held !== null);
    show("state", "token needed");
    at("state").className = "state bad";
  }
  const words = unreachable ? `${unreachable.message} Trying again…` : closed ? "This server asks for a token." : errors[0]?.message;
  tellProblem(words, Boolean(closed));
  document.body.classList.toggle("stale", errors.length > 0);
  // What is none of the server's words is a mistake of the page's own, for its console.
  for (const error of errors) if (!(error instanceof Unreachable) && !error.status) console.error(error);
  return errors.length === 0;
}

function tellProblem(text, closed) {
  at("problem").hidden = !text;
  show("problem-text", text ?? "");
  at("enter-token").hidden = !closed;
}

function route() {
  const [, encoded] = location.hash.match(/^#\/queue\/(.+)$/) ?? [];
  const name = encoded === undefined ? null : decoded(encoded);
  if (name === shown) return;
  const left = shown;
  shown = name;
  at("main").dataset.view = name === null ? "home" : "queue";
  document.title = name === null ? "Holdfast" : `${name} · Holdfast`;
  if (name === null) queue.close();
  else queue.open(name);
  overview.mark(name);
  moveFocus(left);
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// Where the list makes room for the queue, what had the focus is gone.
function moveFocus(left) {
  if (shown !== null && getComputedStyle(at("queues")).display === "none") at("queue-name").focus();
  else if (shown === null && left !== null) overview.rowOf(left)?.focus();
  if (at("queue").contains(document.activeElement)) scrollTo(0, 0);
}

server.begin();
overview.begin(follower);
queue.begin(follower);
entry.begin({
  onEntered: () => follower.resume(),
  // Everything that was shown goes too.
  onForgotten: () => location.reload(),
});
document.addEventListener("visibilitychange", () => document.hidden && interrupt());
addEventListener("hashchange", () => {
  route();
  follower.now();
});
route();
follower.now();
