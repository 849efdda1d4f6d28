// Starting a new instance from a part of this one's history.
import { path, post } from "../api.js";
import { Outcome, useAction } from "../parts.js";
import { go, toInstance } from "../route.js";
import { useMay } from "../session.js";
import { html } from "../view.js";

export async function rerun(id, from) {
  const answer = await post(path`orchestrations/${id}/rerun`, JSON.stringify(from));
  go(toInstance(answer.instance_id));
  return `Rerun as ${answer.instance_id}.`;
}

export function RerunButton({ found, seq }) {
  const { run, outcome, busy } = useAction();
  return useMay("operator") && html`<button class="plain small" type="button" disabled=${busy}
    title="Starts a new instance with the same history up to here"
    onClick=${() => run(() => rerun(found.instance_id, { from_seq: seq }))}>Rerun from here</button><${Outcome} outcome=${outcome} />`;
}
