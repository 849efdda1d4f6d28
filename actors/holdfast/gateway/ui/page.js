// The page: selects the view by the address, and polls what is shown.
import { token, Unreachable } from "./api.js";
import { at, show } from "./dom.js";
import * as tokenDialog from "./token_dialog.js";
import * as instance from "./instance.js";
import * as instances from "./instances.js";
import { Follower } from "./polling.js";
import * as overview from "./overview.js";
import * as queue from "./queue.js";
import { interrupt } from "./series.js";
import * as server from "./server.js";

// The detail views, each with its list. The home view shows both lists and no details.
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
    tokenDialog.ask(token.held !== null);
    show("state", "token needed");
    at("state").className = "state bad";
  }
  const problem = closed ? "This server requires a token." : errors[0]?.message;
  showProblem(unreachable ? `${unreachable.reason}, retrying` : problem, Boolean(closed));
  document.body.classList.toggle("stale", errors.length > 0);
  // Errors without a status are bugs of the page, for the console.
  for (const error of errors) if (!(error instanceof Unreachable) && !error.status) console.error(error);
  return errors.length === 0;
}

function showProblem(text, closed) {
  at("problem").hidden = !text;
  show("problem-text", text ?? "");
  at("enter-token").hidden = !closed;
}

const shownView = () => VIEWS[shown.kind];

// Only visible lists are polled.
const listed = () => Object.entries(VIEWS).filter(([kind]) => shown.kind === null || kind === shown.kind).map(([, one]) => one.list);

function route() {
  const [, kind = null, encoded] = location.hash.match(/^#\/(queue|orchestration)\/(.+)$/) ?? [];
  const name = encoded === undefined ? null : decoded(encoded);
  if (name === shown.name && kind === shown.kind) return;
  const left = shown;
  shown = { kind, name };
  // Queues are not polled in this view.
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

// On narrow screens the list is hidden by the details, and with it the focused element.
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
tokenDialog.begin({
  onEntered: () => follower.resume(),
  // Also removes all data shown.
  onForgotten: () => location.reload(),
});
document.addEventListener("visibilitychange", () => document.hidden && interrupt());
addEventListener("hashchange", () => {
  route();
  follower.now();
});
route();
follower.now();
