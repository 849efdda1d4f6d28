// A form made from a JSON schema: fields of text, numbers, choices and yes or no; the rest is typed as JSON.
import { label } from "./format.js";
import { jsonOf } from "./parts.js";
import { html } from "./view.js";

// Returns the fields of an object's schema, or null for other schemas, whose values are typed as JSON.
export function fieldsOf(schema) {
  const object = resolved(schema, schema);
  if (object?.type !== "object" || !object.properties) return null;
  const required = new Set(object.required ?? []);
  return Object.entries(object.properties).map(([name, given]) => {
    const found = resolved(given, schema);
    const options = (found.anyOf ?? found.oneOf ?? [found]).map((one) => resolved(one, schema));
    const values = options.filter((one) => one.type !== "null");
    const one = values.length === 1 ? values[0] : {};
    return {
      name, required: required.has(name), nullable: values.length < options.length, initial: given.default,
      title: given.title ?? label(name), description: given.description ?? one.description, kind: kindOf(one),
      options: one.const === undefined ? one.enum : [one.const], minimum: plain(one.minimum), maximum: plain(one.maximum),
    };
  });
}

// Large numbers are parsed without losing digits, as objects.
const plain = (value) => (value === undefined ? undefined : JSON.stringify(value));

function resolved(schema, root) {
  const [, name] = schema?.$ref?.match(/^#\/\$defs\/(.+)$/) ?? [];
  return name ? root.$defs?.[name.replaceAll("~1", "/").replaceAll("~0", "~")] ?? {} : schema ?? {};
}

function kindOf({ type, enum: options, const: only }) {
  if (options || only !== undefined) return "choice";
  return ["string", "integer", "number", "boolean"].includes(type) ? type : "json";
}

export const SchemaFields = ({ fields }) => html`<div class="fields">${fields.map((field) => html`
  <label key=${field.name} class=${field.kind === "json" ? "wide" : ""}><span>${field.title}${field.required && html` <em>required</em>`}</span>
    <${Input} field=${field} />${field.description && html`<small>${field.description}</small>`}</label>`)}</div>`;

function Input({ field }) {
  const { kind, initial, options } = field;
  const name = `field.${field.name}`;
  const common = { name, required: field.required && kind !== "boolean" };
  if (kind === "choice") {
    return html`<select ...${common}>${!field.required && html`<option value="">–</option>`}${options.map((one) =>
      html`<option value=${JSON.stringify(one)} selected=${JSON.stringify(one) === JSON.stringify(initial)}>${String(one)}</option>`)}</select>`;
  }
  if (kind === "boolean") return html`<input type="checkbox" ...${common} defaultChecked=${initial === true} />`;
  if (kind === "json") {
    return html`<textarea ...${common} rows="2" spellcheck=${false} defaultValue=${initial === undefined ? "" : JSON.stringify(initial)}
      placeholder="JSON"></textarea>`;
  }
  const number = kind !== "string";
  return html`<input ...${common} type=${number ? "number" : "text"} step=${kind === "integer" ? "1" : "any"} autocomplete="off"
    min=${field.minimum} max=${field.maximum} defaultValue=${initial ?? ""} />`;
}

// Returns the JSON text of the object, with numbers and JSON as typed. Fields left empty are left out.
export function inputOf(fields, given) {
  const parts = [];
  for (const { name, kind, required } of fields) {
    const text = given.get(`field.${name}`);
    if (kind === "boolean") parts.push([name, text === null ? "false" : "true"]);
    else if (text === "" && !(required && kind === "string")) continue;
    else if (kind === "string") parts.push([name, JSON.stringify(text)]);
    else parts.push([name, jsonOf(text)]);
  }
  return `{${parts.map(([name, text]) => `${JSON.stringify(name)}: ${text}`).join(", ")}}`;
}
