// The actions on an instance: raise an event, suspend, resume, cancel, delete.
import { path, post, remove } from "./api.js";
import { at, show, tell } from "./dom.js";

// Each panel with the element that gets the focus, which is never a destructive button.
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

// Shows the actions that the status allows; none without an instance. `names` are the awaited events.
export function draw(found, names = []) {
  awaited = names;
  const there = found !== null;
  const ended = there && found.ended_at !== null;
  for (const button of ["raise-open", "cancel-open"]) at(button).hidden = !there || ended;
  // A blocked instance can be suspended too; it takes effect once its code matches the history again.
  const suspended = there && (found.status === "SUSPENDED" || found.blocked?.suspended === true);
  at("suspend").hidden = !there || ended || suspended;
  at("resume").hidden = !suspended;
  at("delete-open").hidden = !there;
  force = there && !ended;
  show("delete-question", ended
    ? "Permanently deletes the instance with its history and output."
    : "The instance has not ended. Deleting it stops it at once, without running its cleanup code.");
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

// Runs one action at a time and shows its outcome, unless another instance is shown by then.
async function attempt(success, action) {
  const asked = id;
  if (busy) return;
  busy = true;
  try {
    await action(asked);
    if (asked !== id) return;
    tell(at("instance-answer"), success);
    unfold(null);
    await follower.now();
    if (asked === id) moveFocus();
  } catch (error) {
    if (asked === id) tell(at("instance-answer"), error.message, true);
  } finally {
    busy = false;
  }
}

// The focused button may have been hidden.
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
  const onSubmit = (form, action) => at(form).addEventListener("submit", (event) => {
    event.preventDefault();
    action();
  });
  onSubmit("raise-panel", raise);
  onSubmit("cancel-panel", () =>
    attempt("Cancellation requested.", (instance) => post(path`orchestrations/${instance}/cancel`, reason())));
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
