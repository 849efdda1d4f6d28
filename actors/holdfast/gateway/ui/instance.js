// The view of one orchestration instance: status, input, output and history.
import { get, now, path, Refused } from "./api.js";
import * as instanceActions from "./instance_actions.js";
import { at, el, keep, list, show } from "./dom.js";
import { linkTo } from "./instances.js";
import { payload } from "./items.js";
import { awaited, badge, eventKey, eventRow, precise } from "./timeline.js";
import { count, live, moment, number } from "./format.js";

const EVENTS_SHOWN = 100;
const EVENTS_MORE = 500;
// Each event may have a large payload.
const MOST_AT_ONCE = 100;

let id = null;
// The shown events of the current execution by number: the latest ones.
let events = new Map();
// Identifies the instance and execution of the events: an id can be reused after a deletion.
let incarnation = "";
let wanted = EVENTS_SHOWN;
let drawn = {};
const status = badge();

export function open(instance) {
  id = instance;
  wanted = EVENTS_SHOWN;
  drawn = {};
  forget();
  show("instance-id", instance);
  at("instance").hidden = false;
  at("instance-body").hidden = true;
  at("instance-problem").hidden = true;
  instanceActions.open(instance);
}

export function close() {
  id = null;
  at("instance").hidden = true;
}

function forget() {
  incarnation = "";
  events = new Map();
  at("timeline").replaceChildren();
}

export async function refresh() {
  const asked = id;
  if (asked === null) return;
  try {
    const found = await get(path`orchestrations/${asked}`);
    if (asked !== id) return;
    const present = `${found.created_at} ${found.execution_id}`;
    if (present !== incarnation) {
      forget();
      incarnation = present;
    }
    await read(asked, found);
    if (asked !== id) return;
    draw(found);
    at("instance-problem").hidden = true;
    at("instance-body").hidden = false;
  } catch (error) {
    // An error of this instance alone is shown here; the rest of the page keeps working.
    if (!(error instanceof Refused) || error.status === 401) throw error;
    if (asked !== id) return;
    show("instance-problem", error.message);
    at("instance-problem").hidden = false;
    if (error.status !== 404) return;
    forget();
    at("instance-body").hidden = true;
    instanceActions.draw(null);
  }
}

// Fetches the wanted events that are not loaded yet: usually the few new ones.
async function read(asked, found) {
  const first = Math.max(1, found.events - wanted + 1);
  for (const seq of events.keys()) if (seq < first) events.delete(seq);
  const history = `${path`orchestrations/${asked}/history`}?execution_id=${found.execution_id}`;
  for (let next = first; next <= found.events; next += 1) {
    if (events.has(next)) continue;
    let many = 1;
    while (many < MOST_AT_ONCE && next + many <= found.events && !events.has(next + many)) many += 1;
    const answer = await get(`${history}&limit=${many}&cursor=${next - 1}`);
    if (asked !== id || answer.events.length === 0) return;
    for (const event of answer.events) events.set(event.seq, event);
  }
}

function draw(found) {
  const ended = found.ended_at !== null;
  at("instance-now").replaceChildren(status.element);
  status.draw(found.status);
  show("instance-name", found.name);
  show("instance-version", `version ${found.version}`);
  live(at("instance-began"), new Date(found.created_at), "ago");
  show("instance-took-title", ended ? "Duration" : "Duration so far");
  show("instance-took", precise((ended ? Date.parse(found.ended_at) : now()) - Date.parse(found.created_at)));
  at("instance-execution-tile").hidden = found.execution_id === 1;
  show("instance-execution", number(found.execution_id));
  drawParent(found.parent);
  value("custom", found.custom_status, found.custom_status !== null);
  value("tags", found.tags, Object.keys(found.tags).length > 0);
  value("input", found.input, true);
  value("output", found.output, found.status === "COMPLETED");
  value("failure", found.error, found.error !== null);
  drawBlocked(found.blocked);
  at("reason-card").hidden = !found.reason;
  show("reason", found.reason ?? "");
  instanceActions.draw(found, awaited([...events.values()]));
  drawHistory(found);
}

const BLOCKED_FIELDS = { kind: "Kind", since: "Since", expected: "Expected by history", found: "Found in code", line: "Line" };

function drawBlocked(blocked) {
  at("blocked-card").hidden = blocked === undefined;
  show("blocked", blocked?.message ?? "");
  const fields = Object.entries(BLOCKED_FIELDS).filter(([name]) => blocked?.[name]);
  const text = (name) => name === "since" ? moment(new Date(blocked.since)) : blocked[name];
  list(at("blocked-fields"), fields.map(([name, title]) => [title, text(name)]));
}

function drawParent(parent) {
  keep(at("instance-parent"), parent ? [parent.instance_id] : [], (one) => one, (one) =>
    [el("span", {}, "Started by ", el("a", { href: linkTo(one) }, one)), () => {}]);
}

// Redraws a value only when it changed, as it may be large.
function value(name, shown, there) {
  at(`${name}-card`).hidden = !there;
  const text = there ? JSON.stringify(shown) : undefined;
  if (drawn[name] === text) return;
  drawn[name] = text;
  at(name).replaceChildren(...(there ? [payload(shown)] : []));
}

function drawHistory(found) {
  const shown = [...events.values()].sort((one, other) => one.seq - other.seq);
  const began = new Date(found.created_at);
  keep(at("timeline"), shown, eventKey, (event) => eventRow(event, (seq) => events.get(seq), began));
  at("earlier-events").hidden = shown.length === 0 || shown[0].seq === 1;
  show("events-count", shown.length < found.events
    ? `the last ${number(shown.length)} of ${number(found.events)}` : count(found.events, "event"));
}

export function begin(follower) {
  instanceActions.begin(follower);
  at("earlier-events").addEventListener("click", () => {
    wanted += EVENTS_MORE;
    follower.now();
  });
}
