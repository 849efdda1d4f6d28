// Looks up one idempotency record.
import { get, path } from "../api.js";
import { Card, Facts, factsOf, Form, Outcome, Payload, Title, useAction } from "../parts.js";
import { useSession } from "../session.js";
import { html, useState } from "../view.js";

export function IdempotencyLookup() {
  const [record, setRecord] = useState(null);
  const { run, outcome } = useAction();
  const { tenant, bound } = useSession();
  const find = (fields) => run(async () => {
    setRecord(null);
    const key = fields.get("key");
    setRecord({ key, ...await get(path`idempotency/${fields.get("tenant")?.trim() || "~"}/${key}`) });
    return "";
  });
  return html`<${Title}>Idempotency<//>
    <div class="card"><${Form} title="Find a record" onSubmit=${find}>
      <label class="grow">Key <input name="key" maxlength="1024" autocomplete="off" autocapitalize="off" spellcheck=${false} required /></label>
      ${!bound && html`<label>Tenant <input name="tenant" maxlength="255" autocomplete="off" placeholder=${tenant ?? "default"} /></label>`}
      <button>Find</button><//><${Outcome} outcome=${outcome} />
      <p class="quiet">An activity's key is <code>instance:execution:number</code>. Other records have the keys that their callers chose.</p></div>
    ${record && html`<${Card} title=${record.key} name="record"><${Facts} facts=${factsOf(record, ["key", "result"])} />
      ${record.status === "SUCCESS" && html`<p class="quiet">Result</p><${Payload} value=${record.result} name="Result" />`}<//>`}`;
}
