// The view of one queue: depth, waiting items, locks, counters and configuration.
import { get, now, path, Refused } from "./api.js";
import * as actions from "./actions.js";
import { DepthChart } from "./chart.js";
import * as config from "./config.js";
import { at, el, keep, list, show } from "./dom.js";
import { itemKey, itemsOf, takenRow, waitingRow } from "./items.js";
import { linkTo } from "./overview.js";
import { seriesOf } from "./series.js";
import { age, count, label, live, number } from "./format.js";

const PEEKS = [10, 50, 100];
const PRIORITIES_SHOWN = 12;
const ITEMS_UNFOLDED = 4;
const DEAD_LETTER_SUFFIX = "-deadletter";

let name = null;
let peek = PEEKS[0];
// The queue's state when its items were last fetched: they can be large, so they are fetched only after a change.
let seen = "";
let minutes = 5;
let chart;

export function open(queue) {
  name = queue;
  peek = PEEKS[0];
  seen = "";
  show("queue-name", queue);
  at("queue").hidden = false;
  at("queue-body").hidden = true;
  at("queue-problem").hidden = true;
  at("queue-paused").hidden = true;
  for (const list of ["peek", "locks", "priorities", "counters"]) at(list).replaceChildren();
  actions.open(queue);
  config.open(queue);
}

export function close() {
  name = null;
  at("queue").hidden = true;
}

export async function refresh() {
  const asked = name;
  if (asked === null) return;
  try {
    const stats = await get(path`queue/${asked}`);
    const state = JSON.stringify([stats.count, stats.priorities, stats.locks, stats.counters, peek]);
    const [waiting, locked] = state === seen ? [] : await Promise.all([
      get(`${path`queue/${asked}/peek`}?count=${peek}`),
      get(path`queue/${asked}/in-flight`),
    ]);
    if (asked !== name) return;
    seriesOf(asked).add(now(), stats.count, stats.locked);
    if (waiting) {
      seen = state;
      drawWaiting(stats, itemsOf(waiting));
      drawLocks(locked.locks);
    }
    draw(stats);
    at("queue-problem").hidden = true;
    at("queue-body").hidden = false;
  } catch (error) {
    // An error of this queue alone is shown here; the rest of the page keeps working.
    if (asked !== name || !(error instanceof Refused) || error.status === 401) throw error;
    show("queue-problem", error.message);
    at("queue-problem").hidden = false;
  }
}

function draw(stats) {
  show("waiting", number(stats.count));
  show("locked", number(stats.locked));
  show("delayed", number(stats.delayed));
  at("delayed-tile").hidden = stats.delayed === 0;
  show("oldest", stats.oldest_age_seconds === null ? "–" : age(stats.oldest_age_seconds));
  at("queue-paused").hidden = !stats.config.paused;
  drawDeadLetters(stats);
  drawPriorities(stats.priorities);
  list(at("counters"), Object.entries(stats.counters).map(([key, many]) => [label(key), number(many)]));
  config.draw(stats.config);
  actions.draw(stats);
  drawChart();
}

function drawDeadLetters({ dead_letters: many, config: { dead_letter_queue: chosen } }) {
  const target = chosen ?? name + DEAD_LETTER_SUFFIX;
  keep(at("dead-letters"), [{ many, target }], () => `${many > 0} ${target}`, () => {
    const figure = many > 0 ? el("a", { href: linkTo(target), title: target }) : el("span");
    return [figure, (latest) => { figure.textContent = number(latest.many); }];
  });
}

function drawPriorities(priorities) {
  const all = Object.entries(priorities);
  const most = Math.max(1, ...all.map(([, many]) => many));
  keep(at("priorities"), all.slice(0, PRIORITIES_SHOWN), ([priority]) => priority, ([priority]) => {
    const bar = el("span", { class: "bar-fill" });
    const figure = el("span", { class: "number" });
    const row = el("li", {}, el("span", { class: "priority" }, priority), el("span", { class: "bar-room" }, bar), figure);
    return [row, ([, many]) => {
      bar.style.inlineSize = `${(100 * many) / most}%`;
      figure.textContent = number(many);
    }];
  });
  at("priorities-card").hidden = all.length === 0;
  at("priorities-rest").hidden = all.length <= PRIORITIES_SHOWN;
  show("priorities-rest", `and ${count(all.length - PRIORITIES_SHOWN, "priority", "priorities")} more`);
}

function drawWaiting(stats, items) {
  keep(at("peek"), items, itemKey, waitingRow);
  at("peek-empty").hidden = items.length > 0;
  at("peek-more").hidden = items.length >= stats.count || peek === PEEKS.at(-1);
  show("peek-count", items.length < stats.count ? `${number(items.length)} of ${number(stats.count)}` : "");
}

function drawLocks(locks) {
  const few = locks.reduce((sum, lock) => sum + lock.count, 0) <= ITEMS_UNFOLDED;
  // Two locks may share a prefix, which is short.
  keep(at("locks"), locks, (lock) => `${lock.lock_id_prefix} ${lock.messages[0]?.id}`, (lock) => {
    const until = el("time");
    const items = el("ol", { class: "items" });
    const many = el("span");
    const unfolded = el("details", { open: few },
      el("summary", { class: "lock" }, el("code", {}, `${lock.lock_id_prefix}…`), many, until), items);
    return [el("li", {}, unfolded), (latest) => {
      live(until, new Date(latest.expires_at), "left");
      const shown = latest.messages.length;
      // The server returns only a part of large locks.
      many.textContent = count(latest.count, "item") + (shown < latest.count ? `, ${number(shown)} shown` : "");
      keep(items, itemsOf(latest), itemKey, takenRow);
    }];
  });
  at("locks-empty").hidden = locks.length > 0;
  show("locks-count", locks.length > 1 ? count(locks.length, "lock") : "");
}

function drawChart() {
  chart ??= new DepthChart({
    plot: at("depth-plot"), top: at("depth-top"), middle: at("depth-middle"),
    start: at("depth-start"), end: at("depth-end"), readout: at("depth-readout"),
  });
  chart.draw(seriesOf(name), minutes * 60 * 1000);
}

export function begin(follower) {
  actions.begin(follower);
  config.begin(follower);
  at("peek-more").addEventListener("click", () => {
    peek = PEEKS[PEEKS.indexOf(peek) + 1];
    follower.now();
  });
  const spans = at("depth-span");
  spans.addEventListener("click", ({ target }) => {
    if (!target.dataset.minutes) return;
    minutes = target.dataset.minutes === "all" ? Infinity : Number(target.dataset.minutes);
    for (const button of spans.children) button.setAttribute("aria-pressed", String(button === target));
    drawChart();
  });
}
