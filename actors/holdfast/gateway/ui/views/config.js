// The configuration of a queue, and the form that changes it.
import { path, put } from "../api.js";
import { label, number } from "../format.js";
import { Card, Facts, Form, Outcome, useAction } from "../parts.js";
import { useMay } from "../session.js";
import { html, useState } from "../view.js";

const NAMES = new Set(["dead_letter_queue"]);

function formatted(key, value) {
  if (value === null) return key === "dead_letter_queue" ? "default" : "none";
  if (typeof value === "boolean") return value ? "yes" : "no";
  return typeof value === "number" ? number(value) : String(value);
}

export function Config({ queue, config }) {
  // The values when the form was opened: what is polled meanwhile does not change what is typed.
  const [edited, edit] = useState(null);
  const { run, outcome } = useAction();
  const operates = useMay("operator");
  const save = async (_, form) => {
    const inputs = [...form.querySelectorAll("input")];
    const changes = Object.fromEntries(inputs.map((input) => [input.name, typed(input)])
      .filter(([key, value]) => value !== edited[key]));
    const done = await run(async () => {
      await put(path`queue/${queue}/config`, JSON.stringify(changes));
      return "Saved.";
    });
    if (done) edit(null);
  };
  const side = operates && !edited && html`<button class="plain small" type="button" onClick=${() => edit(config)}>Change</button>`;
  return html`<${Card} title="Configuration" name="config" side=${side}>
    ${edited ? html`<${Form} title="Configuration" onSubmit=${save}>
      <div class="wide fields">${Object.entries(edited).map(([key, value]) => html`<${Field} key=${key} name=${key} value=${value} />`)}</div>
      <button>Save</button><button class="plain" type="button" onClick=${() => edit(null)}>Cancel</button><//>`
      : html`<${Facts} facts=${Object.entries(config).map(([key, value]) => [label(key), formatted(key, value)])} />`}
    <${Outcome} outcome=${outcome} /><//>`;
}

function Field({ name, value }) {
  if (typeof value === "boolean") return html`<label>${label(name)}<input type="checkbox" name=${name} defaultChecked=${value} /></label>`;
  return html`<label>${label(name)}<input type=${NAMES.has(name) ? "text" : "number"} step="any" name=${name} defaultValue=${value ?? ""}
    placeholder=${formatted(name, null)} autocomplete="off" spellcheck=${false} /></label>`;
}

function typed(input) {
  if (input.type === "checkbox") return input.checked;
  if (input.value.trim() === "") return null;
  return input.type === "number" ? Number(input.value) : input.value.trim();
}
