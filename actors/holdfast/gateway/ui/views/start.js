// Starts an orchestration: a form made from the JSON schema of its input, or the input as JSON.
import { path, post } from "../api.js";
import { Form, JsonField, jsonOf, Outcome, Title, useAction } from "../parts.js";
import { go, toInstance, toStart } from "../route.js";
import { fieldsOf, inputOf, SchemaFields } from "../schema_form.js";
import { useMay } from "../session.js";
import { html, useState } from "../view.js";
import { useDefinitions } from "./definitions.js";

const BACK = { to: "#/orchestrations", text: "All orchestrations" };

export function Start({ name }) {
  const { orchestrations } = useDefinitions();
  const latest = orchestrations.filter((one) => one.latest);
  const may = useMay("user");
  const chosen = name || latest[0]?.name || "";
  return html`<${Title} back=${BACK}>Start an orchestration<//>
    ${!may && html`<p class="card note">This token may not start orchestrations.</p>`}
    ${may && latest.length === 0 && !name && html`<div class="card empty"><p>This server has no orchestrations. Start it with an app that declares one:</p>
      <pre tabindex="0">holdfast serve MODULE:APP</pre></div>`}
    ${may && chosen && html`<div class="card"><label>Orchestration<select onChange=${({ target }) => go(toStart(target.value))}>
      ${[...new Set([...latest.map((one) => one.name), chosen])].map((one) => html`<option value=${one} selected=${one === chosen}>${one}</option>`)}</select></label>
      <${StartForm} key=${chosen} name=${chosen} versions=${orchestrations.filter((one) => one.name === chosen)} /></div>`}`;
}

function StartForm({ name, versions }) {
  const { run, outcome, busy } = useAction();
  const latest = versions.find((one) => one.latest);
  const fields = latest && fieldsOf(latest.input);
  const [asJson, setAsJson] = useState(false);
  const formed = fields && !asJson;
  const start = (given) => run(async () => {
    const input = formed ? inputOf(fields, given) : jsonOf(given.get("input"));
    const body = {
      instance_id: given.get("instance_id").trim() || undefined,
      version: given.get("version") || undefined,
      tags: tagsOf(given.get("tags")),
    };
    const text = JSON.stringify(body);
    const answer = await post(path`orchestrations/${name}/start`, `${text === "{}" ? "{" : `${text.slice(0, -1)}, `}"input": ${input}}`);
    if (!answer.created) return `${answer.instance_id} exists already: nothing was started.`;
    go(toInstance(answer.instance_id));
    return `Started ${answer.instance_id}.`;
  });
  return html`<${Form} title="Start" onSubmit=${start}>
    ${formed ? html`<fieldset class="wide schema"><legend>Input</legend><${SchemaFields} fields=${fields} /></fieldset>`
      : html`<${JsonField} title="Input, as JSON" name="input" rows=${6} />`}
    ${fields && html`<label class="choice wide"><input type="checkbox" checked=${asJson} onChange=${({ target }) => setAsJson(target.checked)} /> as JSON</label>`}
    <label>Instance id <input name="instance_id" maxlength="255" autocomplete="off" placeholder="made by the server" /></label>
    <label>Version<select name="version"><option value="">latest</option>${versions.map((one) => html`<option>${one.version}</option>`)}</select></label>
    <label>Tags, as key:value, … <input name="tags" autocomplete="off" /></label>
    <button disabled=${busy}>Start it</button><${Outcome} outcome=${outcome} /><//>`;
}

function tagsOf(text) {
  const pairs = text.split(",").map((part) => part.trim()).filter(Boolean).map((part) => {
    const [key, ...value] = part.split(":");
    return [key.trim(), value.join(":").trim()];
  });
  return pairs.length ? Object.fromEntries(pairs) : undefined;
}
