// What can be done with an instance: an event raised, suspended and resumed, cancelled, deleted.
import { path, post, remove } from "./api.js";
import { at, show, tell } from "./dom.js";

// Each with what gets the focus: not the button that ends something.
const PANELS = { "raise-panel": "raise-name", "cancel-panel": "cancel-reason", "delete-panel": "delete-cancel" };
let id;
let force = false;
let awaited = [];
let busy = false;
let follower;

export function open(instance) {
  id = instance;
  for (const [field, text] of [["raise-name", ""], ["raise-data", "null"], ["cancel-reason", ""]]) at(field).value = text;
  unfold(null);
  tell(at("instance-answer"), "");
  draw(null);
}

// What is offered is what the status allows; without one, nothing is. Of the events it waits for, the first is offered.
export function draw(found, names = []) {
  awaited = names;
  const there = found !== null;
  const ended = there && found.ended_at !== null;
  for (const button of ["raise-open", "cancel-open"]) at(button).hidden = !there || ended;
  at("suspend").hidden = !there || ended || found.status === "SUSPENDED";
  at("resume").hidden = !there || found.status !== "SUSPENDED";
  at("delete-open").hidden = !there;
  force = there && !ended;
  show("delete-question", ended
    ? "Its history and what came of it are deleted, for good."
    : "It has not ended. Deleted by force, it stops where it is, and its code is not told.");
  if (!there || (ended && (!at("raise-panel").hidden || !at("cancel-panel").hidden))) unfold(null);
}

const buttonOf = (panel) => document.querySelector(`[data-panel="${panel}"]`);

function unfold(wanted) {
  for (const panel of Object.keys(PANELS)) {
    at(panel).hidden = panel !== wanted;
    buttonOf(panel).setAttribute("aria-expanded", String(panel === wanted));
  }
  if (wanted === "raise-panel" && !at("raise-name").value) at("raise-name").value = awaited[0] ?? "";
  if (wanted) at(PANELS[wanted]).focus();
}

// Does it, once at a time, and says how it went, unless another instance is shown by then.
async function attempt(said, deed) {
  const asked = id;
  if (busy) return;
  busy = true;
  try {
    await deed(asked);
    if (asked !== id) return;
    tell(at("instance-answer"), said);
    unfold(null);
    await follower.now();
    if (asked === id) moveFocus();
  } catch (error) {
    if (asked === id) tell(at("instance-answer"), error.message, true);
  } finally {
    busy = false;
  }
}

// What had it may be gone.
function moveFocus() {
  if (document.activeElement !== document.body) return;
  ["raise-open", "resume", "suspend", "instance-id"].map(at).find((element) => !element.hidden).focus();
}

function raise() {
  const text = at("raise-data").value.trim() || "null";
  const name = at("raise-name").value.trim();
  try {
    JSON.parse(text);
  } catch (error) {
    tell(at("instance-answer"), `This is not JSON: ${error.message}`, true);
    return;
  }
  attempt(`Raised ${name}.`, (instance) => post(path`orchestrations/${instance}/events/${name}`, text));
}

const reason = () => JSON.stringify(at("cancel-reason").value.trim() ? { reason: at("cancel-reason").value.trim() } : {});

export function begin(theFollower) {
  follower = theFollower;
  for (const panel of Object.keys(PANELS)) {
    buttonOf(panel).addEventListener("click", () => {
      tell(at("instance-answer"), "");
      unfold(at(panel).hidden ? panel : null);
    });
    at(panel).addEventListener("keydown", ({ key }) => {
      if (key !== "Escape") return;
      unfold(null);
      buttonOf(panel).focus();
    });
  }
  const onSubmit = (form, deed) => at(form).addEventListener("submit", (event) => {
    event.preventDefault();
    deed();
  });
  onSubmit("raise-panel", raise);
  onSubmit("cancel-panel", () =>
    attempt("Asked to cancel.", (instance) => post(path`orchestrations/${instance}/cancel`, reason())));
  at("suspend").addEventListener("click", () =>
    attempt("Suspended.", (instance) => post(path`orchestrations/${instance}/suspend`)));
  at("resume").addEventListener("click", () =>
    attempt("Resumed.", (instance) => post(path`orchestrations/${instance}/resume`)));
  at("delete-confirm").addEventListener("click", () => attempt("Deleted.", async (instance) => {
    await remove(`${path`orchestrations/${instance}`}?force=${force}`);
    if (instance === id) location.hash = "#/";
  }));
  at("delete-cancel").addEventListener("click", () => {
    unfold(null);
    buttonOf("delete-panel").focus();
  });
}
