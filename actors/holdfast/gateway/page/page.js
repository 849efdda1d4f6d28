// The page: which view is shown, and what is looked at again and again.
import { token, Unreachable } from "./api.js";
import { at, show } from "./dom.js";
import * as entry from "./entry.js";
import * as instance from "./instance.js";
import * as instances from "./instances.js";
import { Follower } from "./live.js";
import * as overview from "./overview.js";
import * as queue from "./queue.js";
import { interrupt } from "./series.js";
import * as server from "./server.js";

// What can be shown beside its list; at home neither is.
const VIEWS = {
  queue: { view: queue, list: overview, card: "queues", title: "queue-name", article: "queue" },
  orchestration: { view: instance, list: instances, card: "instances", title: "instance-id", article: "instance" },
};
let shown = { kind: null, name: null };
const follower = new Follower(look);

async function look() {
  const tries = await Promise.allSettled([server.refresh(), ...listed().map((one) => one.refresh()), shownView()?.view.refresh()]);
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

const shownView = () => VIEWS[shown.kind];

// A list that is not there need not be asked for.
const listed = () => Object.entries(VIEWS).filter(([kind]) => shown.kind === null || kind === shown.kind).map(([, one]) => one.list);

function route() {
  const [, kind = null, encoded] = location.hash.match(/^#\/(queue|orchestration)\/(.+)$/) ?? [];
  const name = encoded === undefined ? null : decoded(encoded);
  if (name === shown.name && kind === shown.kind) return;
  const left = shown;
  shown = { kind, name };
  // Queues are not looked at meanwhile.
  if (kind === "orchestration") interrupt();
  at("main").dataset.view = kind ?? "home";
  document.title = name === null ? "Holdfast" : `${name} · Holdfast`;
  for (const [one, { view, list }] of Object.entries(VIEWS)) {
    if (one === kind) view.open(name);
    else view.close();
    list.mark(one === kind ? name : null);
  }
  moveFocus(left);
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// Where the list makes room for what is shown, what had the focus is gone.
function moveFocus(left) {
  const here = shownView();
  if (here && getComputedStyle(at(here.card)).display === "none") at(here.title).focus();
  else if (!here && left.kind) VIEWS[left.kind].list.rowOf(left.name)?.focus();
  if (here && at(here.article).contains(document.activeElement)) scrollTo(0, 0);
}

server.begin();
for (const { view, list } of Object.values(VIEWS)) {
  list.begin(follower);
  view.begin(follower);
}
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
