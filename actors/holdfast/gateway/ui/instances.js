// The list of orchestration instances, optionally filtered by status.
import { get, path } from "./api.js";
import { at, el, keep, show } from "./dom.js";
import { badge } from "./timeline.js";
import { curl, live } from "./format.js";

const PAGE = 50;
const MOST_PAGES = 10;
// With a rare status, an answer may contain no matching instance although later ones do.
const MOST_ANSWERS = 20;
let pages = 1;
let listed = [];
let answered = false;
let open = null;

export const linkTo = (instance) => `#/orchestration/${encodeURIComponent(instance)}`;

export async function refresh() {
  const status = at("instance-status").value;
  const found = [];
  let cursor;
  for (let answers = 0; answers < MOST_ANSWERS && found.length < pages * PAGE; answers += 1) {
    const more = `${status ? path`&status=${status}` : ""}${cursor ? path`&cursor=${cursor}` : ""}`;
    const answer = await get(`orchestrations?limit=${PAGE}${more}`);
    found.push(...answer.orchestrations);
    cursor = answer.next_cursor;
    if (!cursor) break;
  }
  // The filter changed meanwhile; the next poll uses the new one.
  if (status !== at("instance-status").value) return;
  listed = found;
  answered = true;
  at("more-instances").hidden = !cursor || pages === MOST_PAGES;
  at("no-instances").hidden = found.length > 0 || status !== "" || Boolean(cursor);
  draw();
}

// Marks the row of the open instance.
export function mark(instance) {
  open = instance;
  draw();
}

export const rowOf = (instance) =>
  [...at("instance-list").querySelectorAll("a")].find((link) => link.getAttribute("href") === linkTo(instance));

function draw() {
  const wanted = at("find-instance").value.trim().toLowerCase();
  const shown = listed.filter(({ instance_id: id, name }) => `${id}\n${name}`.toLowerCase().includes(wanted));
  keep(at("instance-list"), shown, (instance) => instance.instance_id, row);
  at("no-instance-found").hidden = !answered || shown.length > 0 || !at("no-instances").hidden;
  show("no-instance-found", wanted
    ? "No match among the loaded rows. Press Enter to open the instance with this id."
    : "No instances with this status.");
  at("instances").classList.toggle("blank", shown.length === 0);
}

function row({ instance_id: id }) {
  const [status, name, since] = [badge(), el("span", { class: "kind" }), el("time")];
  const link = el("a", { href: linkTo(id) }, el("span", { class: "name" }, id), name, status.element, since);
  return [el("li", {}, link), (instance) => {
    name.textContent = instance.name;
    status.draw(instance.status);
    live(since, new Date(instance.created_at), "ago");
    link.setAttribute("aria-label", `${id}: ${instance.name}, ${instance.status.toLowerCase()}`);
    if (id === open) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }];
}

export function begin(follower) {
  show("no-instances-command", curl("orchestrations/order/start", '{"input": {"id": 1}}'));
  at("find-instance").addEventListener("input", draw);
  at("instance-status").addEventListener("change", () => {
    pages = 1;
    follower.now();
  });
  at("find-instances").addEventListener("submit", (event) => {
    event.preventDefault();
    const id = at("find-instance").value.trim();
    if (!id) return;
    at("find-instance").value = "";
    draw();
    location.hash = linkTo(id);
  });
  at("more-instances").addEventListener("click", () => {
    pages += 1;
    follower.now();
  });
}
