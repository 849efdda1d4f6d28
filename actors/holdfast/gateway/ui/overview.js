// The list of queues, each with its depth over the last minutes.
import { get, now, path } from "./api.js";
import { Sparkline } from "./chart.js";
import { at, el, keep, show } from "./dom.js";
import { seriesOf } from "./series.js";
import { curl, number } from "./format.js";

const PAGE = 50;
let pages = 1;
let listed = [];
let open = null;

// An unknown number is not zero.
const amount = (many) => (many === null ? "?" : number(many));

export const linkTo = (queue) => `#/queue/${encodeURIComponent(queue)}`;

export async function refresh() {
  const found = [];
  let cursor;
  // A page may have fewer queues than requested, when they have many partitions.
  while (found.length < pages * PAGE) {
    const answer = await get(`queues?limit=${PAGE}${cursor ? path`&cursor=${cursor}` : ""}`);
    found.push(...answer.queues);
    cursor = answer.next_cursor;
    if (!cursor) break;
  }
  const time = now();
  for (const queue of found) if (!queue.error) seriesOf(queue.queue).add(time, queue.count, queue.locked);
  listed = found;
  at("more-queues").hidden = !cursor;
  at("no-queues").hidden = found.length > 0;
  draw();
}

// Marks the row of the open queue.
export function mark(queue) {
  open = queue;
  draw();
}

export const rowOf = (queue) => 
  [...at("queue-list").querySelectorAll("a")].find((link) => link.getAttribute("href") === linkTo(queue));

function draw() {
  const wanted = at("find-name").value.trim().toLowerCase();
  const shown = listed.filter((queue) => queue.queue.toLowerCase().includes(wanted));
  keep(at("queue-list"), shown, (queue) => queue.queue, row);
  at("none-found").hidden = shown.length > 0 || listed.length === 0;
  at("queues").classList.toggle("blank", shown.length === 0);
}

function row({ queue: name }) {
  const spark = new Sparkline();
  const [waiting, locked, dead] = ["waiting", "locked", "dead"].map((kind) => el("span", { class: `figure ${kind}` }));
  const link = el("a", { href: linkTo(name) },
    el("span", { class: "what" }, el("span", { class: "name" }, name), el("span", { class: "more" }, locked, dead)),
    spark.element, waiting);
  const figure = (element, many, word) => {
    element.replaceChildren(amount(many), el("small", {}, ` ${word}`));
    element.classList.toggle("none", many === 0);
  };
  const damaged = () => {
    for (const element of [locked, dead]) element.replaceChildren();
    waiting.replaceChildren("damaged");
    link.setAttribute("aria-label", `${name}: damaged`);
  };
  return [el("li", {}, link), (queue) => {
    const letters = queue.dead_letters === 1 ? "dead letter" : "dead letters";
    spark.draw(seriesOf(name));
    link.classList.toggle("damaged", Boolean(queue.error));
    if (queue.error) damaged();
    else {
      figure(waiting, queue.count, "waiting");
      figure(locked, queue.locked, "locked");
      figure(dead, queue.dead_letters, letters);
      link.setAttribute("aria-label", `${name}: ${number(queue.count)} waiting, ${number(queue.locked)} locked, ` +
        `${amount(queue.dead_letters)} ${letters}`);
    }
    if (name === open) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }];
}

export function begin(follower) {
  show("no-queues-command", curl("queue/orders/push", '{"item": {"id": 1}}'));
  at("find-name").addEventListener("input", draw);
  at("find").addEventListener("submit", (event) => {
    event.preventDefault();
    const name = at("find-name").value.trim();
    if (!name) return;
    at("find-name").value = "";
    draw();
    location.hash = linkTo(name);
  });
  at("more-queues").addEventListener("click", () => {
    pages += 1;
    follower.now();
  });
}
