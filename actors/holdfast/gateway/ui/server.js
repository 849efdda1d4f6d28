// The server's state, its actors, and a form that calls an actor.
import { get, now, path, post, Refused } from "./api.js";
import { at, el, keep, show, tell } from "./dom.js";
import { curl, number, span } from "./format.js";

export async function refresh() {
  const status = await get("status");
  show("state", status.ready ? "ready" : `not ready: ${status.reason}`);
  at("state").className = `state ${status.ready ? "good" : "bad"}`;
  const up = span(Math.max(0, now() - Date.parse(status.started_at)) / 1000);
  const whose = status.tenant === "default" ? "" : `tenant ${status.tenant} · `;
  show("facts", `${whose}${status.host} host · version ${status.version} · up ${up}`);
  keep(at("actor-types"), status.actors, (actor) => actor.type, row);
  offer(status.actors.map((actor) => actor.type));
  // On Dapr the actor API is the sidecar's, on another port.
  at("call").hidden = status.host !== "embedded" || status.actors.length === 0;
}

function row({ type }) {
  const active = el("td", { class: "number" });
  return [el("tr", {}, el("td", { class: "name" }, type), active), (actor) => {
    active.textContent = number(actor.active);
    active.classList.toggle("none", actor.active === 0);
  }];
}

function offer(types) {
  const select = at("call-type");
  if ([...select.options].map((option) => option.value).join() === types.join()) return;
  const chosen = select.value;
  select.replaceChildren(...types.map((type) => new Option(type, type)));
  if (types.includes(chosen)) select.value = chosen;
  showCommand();
}

const target = () =>
  path`v1.0/actors/${at("call-type").value}/${at("call-id").value}/method/${at("call-method").value}`;

function showCommand() {
  try {
    show("call-command", curl(target(), at("call-body").value));
  } catch (error) {
    show("call-command", error.message);
  }
}

async function call(event) {
  event.preventDefault();
  try {
    const answer = await post(target(), at("call-body").value);
    tell(at("call-answer"), answer === undefined ? "(no answer)" : JSON.stringify(answer));
  } catch (error) {
    tell(at("call-answer"), error instanceof Refused ? innermost(error.message) : error.message, true);
  }
}

// Dapr's API wraps the actor's error message; returns the inner one.
function innermost(message) {
  try {
    return JSON.parse(message.slice(message.indexOf("{"))).message ?? message;
  } catch {
    return message;
  }
}

export function begin() {
  at("call-form").addEventListener("submit", call);
  at("call-form").addEventListener("input", showCommand);
}
