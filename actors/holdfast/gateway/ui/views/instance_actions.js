// The actions on an instance that its status and the caller's role allow.
import { path, post, remove } from "../api.js";
import { Confirm, Form, JsonField, jsonOf, Outcome, Tools, useAction } from "../parts.js";
import { go } from "../route.js";
import { useMay } from "../session.js";
import { html } from "../view.js";
import { definitionOf, Names, useDefinitions } from "./definitions.js";
import { rerun } from "./rerun.js";

const REQUEST_SECONDS = 10;

export function InstanceActions({ found }) {
  const { run, outcome } = useAction();
  const uses = useMay("user");
  const operates = useMay("operator");
  const definition = definitionOf(useDefinitions(), found);
  const id = found.instance_id;
  const ended = found.ended_at !== null;
  // A blocked instance can be suspended too; it takes effect once its code matches the history again.
  const suspended = found.status === "SUSPENDED" || found.blocked?.suspended === true;
  const act = (done, call) => () => run(async () => {
    await call();
    return done;
  });
  const actions = [
    uses && !ended && { name: "raise", text: "Raise an event", panel: (given) => html`<${Raise} ...${{ found, definition, run, ...given }} />` },
    uses && !ended && { name: "request", text: "Send a request", panel: (given) => html`<${Request} ...${{ found, definition, run, ...given }} />` },
    operates && !ended && !suspended && { name: "suspend", text: "Suspend", run: act("Suspended.", () => post(path`orchestrations/${id}/suspend`)) },
    operates && suspended && { name: "resume", text: "Resume", run: act("Resumed.", () => post(path`orchestrations/${id}/resume`)) },
    operates && { name: "rerun", text: "Rerun", panel: () => html`<${Rerun} found=${found} run=${run} />` },
    uses && !ended && { name: "cancel", text: "Cancel", panel: (given) => html`<${Cancel} ...${{ id, run, ...given }} />` },
    operates && { name: "delete", text: "Delete", panel: ({ close }) => html`<${Confirm} close=${close} button="Delete it" keep="Keep it"
      text=${ended ? "Permanently deletes the instance with its history and output."
        : "The instance has not ended. Deleting it stops it at once, without running its cleanup code."}
      onConfirm=${() => run(async () => {
        await remove(`${path`orchestrations/${id}`}?force=${!ended}`);
        go("#/orchestrations");
        return `Deleted ${id}.`;
      })} />` },
  ].filter(Boolean);
  return html`<${Tools} title="Instance actions" actions=${actions} /><${Outcome} outcome=${outcome} />`;
}

function Raise({ found, definition, run, close }) {
  const awaited = found.waiting_for.filter(({ kind }) => kind === "event" || kind === "mailbox").map(({ name }) => name);
  const names = [...awaited, ...Object.keys(definition?.mailboxes ?? {})];
  const submit = async (fields) => {
    const name = fields.get("event").trim();
    const done = await run(async () => {
      const { delivered } = await post(path`orchestrations/${found.instance_id}/events/${name}`, jsonOf(fields.get("data")));
      return delivered ? `Raised ${name}.` : `Raised ${name}, but nothing waits for it: it was dropped.`;
    });
    if (done) close();
  };
  return html`<${Form} title="Raise an event" onSubmit=${submit}>
    <label>Event <input name="event" list="awaited" maxlength="255" autocomplete="off" autocapitalize="off" spellcheck=${false}
      required data-first defaultValue=${names[0] ?? ""} /></label><${Names} id="awaited" names=${names} />
    <${JsonField} title="Data, as JSON" name="data" /><button>Raise it</button><//>`;
}

function Request({ found, definition, run, close }) {
  const names = [...Object.keys(definition?.requests ?? {}),
    ...found.waiting_for.filter(({ kind }) => kind === "request").map(({ name }) => name)];
  const submit = async (fields) => {
    const name = fields.get("request").trim();
    const done = await run(async () => {
      const answer = await post(`${path`orchestrations/${found.instance_id}/requests/${name}`}?timeout_seconds=${REQUEST_SECONDS}`,
        jsonOf(fields.get("data")));
      return "reply" in answer ? `Reply: ${JSON.stringify(answer.reply)}`
        : `No reply in ${REQUEST_SECONDS} seconds. The request ${answer.request_id} is saved, and the reply will be in the history.`;
    });
    if (done) close();
  };
  return html`<${Form} title="Send a request" onSubmit=${submit}>
    <label>Request <input name="request" list="declared" maxlength="255" autocomplete="off" autocapitalize="off" spellcheck=${false}
      required data-first defaultValue=${names[0] ?? ""} /></label><${Names} id="declared" names=${names} />
    <${JsonField} title="Data, as JSON" name="data" /><button>Send it</button><//>`;
}

function Cancel({ id, run, close }) {
  const submit = async (fields) => {
    const reason = fields.get("reason").trim();
    const body = JSON.stringify(reason ? { reason } : {});
    const done = await run(async () => {
      await post(path`orchestrations/${id}/cancel`, body);
      return "Cancellation requested.";
    });
    if (done) close();
  };
  return html`<${Form} title="Cancel the instance" onSubmit=${submit}>
    <label class="wide">Reason (recorded in the history) <input name="reason" maxlength="1000" autocomplete="off" data-first /></label>
    <button class="danger">Cancel it</button><//>`;
}

function Rerun({ found, run }) {
  const start = (from) => () => run(() => rerun(found.instance_id, from));
  return html`<p>Starts a new instance. This one is not changed.</p><div class="row">
    <button type="button" data-first onClick=${start({})}>From the start</button>
    ${found.status === "FAILED" && html`<button type="button" onClick=${start({ from: "failure" })}>From the failure</button>`}
    <span class="quiet">Or open a step below, and rerun from there.</span></div>`;
}
