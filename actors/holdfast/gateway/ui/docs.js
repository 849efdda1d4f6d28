// The page at /docs: the REST calls, from the server's own OpenAPI document.
import { get, token } from "./api.js";
import { Payload } from "./parts.js";
import { TokenDialog } from "./token_dialog.js";
import { html, render, useEffect, useState } from "./view.js";

const VERBS = ["get", "post", "put", "delete"];

function Docs() {
  const [{ schema, error }, set] = useState({});
  const [wanted, setWanted] = useState("");
  const load = () => get("openapi.json").then((found) => set({ schema: found }), (refusal) => set({ error: refusal }));
  useEffect(() => { load(); }, []);
  return html`<header class="bar"><a class="brand" href="./"><img src="page/favicon.svg" alt="" width="26" height="26" /><h1>Holdfast</h1></a>
      <p class="facts">REST calls${schema && ` · ${schema.info.version}`} · <a href="openapi.json">openapi.json</a></p></header>
    ${error?.status === 401 && html`<${TokenDialog} refused=${token.held !== null} onEntered=${load} onCancel=${() => set({})} />`}
    <main id="main">${error && error.status !== 401 && html`<p class="problem" role="alert">${error.message}</p>`}
      ${schema && html`<div class="filters"><label class="grow">Find a call <input type="search" onInput=${({ target }) => setWanted(target.value.trim().toLowerCase())} /></label></div>
        ${groups(schema, wanted).map(([tag, calls]) => html`<section class="card flush" key=${tag} aria-label=${tag}><h2 class="tag-title">${tag}</h2>
          ${calls.map((call) => html`<${Call} key=${`${call.verb} ${call.path}`} schema=${schema} ...${call} />`)}</section>`)}`}</main>`;
}

function groups(schema, wanted) {
  const found = new Map();
  for (const [path, verbs] of Object.entries(schema.paths)) {
    for (const verb of VERBS.filter((one) => verbs[one])) {
      const call = verbs[verb];
      if (!`${verb} ${path} ${call.summary}`.toLowerCase().includes(wanted)) continue;
      const tag = call.tags?.[0] ?? "other";
      found.set(tag, [...(found.get(tag) ?? []), { path, verb, call }]);
    }
  }
  return [...found];
}

function Call({ schema, path, verb, call }) {
  const body = call.requestBody?.content?.["application/json"];
  return html`<details class="operation"><summary><span class=${`verb ${verb}`}>${verb.toUpperCase()}</span><code>${path}</code><span class="quiet">${call.summary}</span></summary>
    <div class="item-body">${call.description && html`<p>${call.description}</p>`}
      ${call.parameters?.length > 0 && html`<h4>Parameters</h4><dl class="facts-list">${call.parameters.map((one) => html`
        <dt><code>${one.name}</code> in ${one.in}${one.required && ", required"}</dt><dd>${words(one.schema, schema)}${one.description && ` ${one.description}`}</dd>`)}</dl>`}
      ${body && html`<h4>Body</h4><${Shape} content=${body} schema=${schema} name="Body" />`}
      <h4>Answers</h4>${Object.entries(call.responses ?? {}).map(([status, answer]) => html`<div key=${status}>
        <p><b>${status}</b> ${answer.description}</p>${status < "300" && html`<${Shape} content=${answer.content?.["application/json"]} schema=${schema} name=${`Answer ${status}`} />`}</div>`)}
    </div></details>`;
}

// The example, and what each field is.
function Shape({ content, schema, name }) {
  if (!content) return null;
  const example = content.example ?? Object.values(content.examples ?? {})[0]?.value;
  const object = resolved(content.schema, schema);
  const required = new Set(object.required ?? []);
  return html`${example !== undefined && html`<${Payload} value=${example} name=${name} />`}
    ${object.properties && html`<dl class="facts-list">${Object.entries(object.properties).map(([field, one]) => html`
      <dt><code>${field}</code>${required.has(field) && ", required"}</dt><dd>${words(one, schema)}${one.description && ` ${one.description}`}</dd>`)}</dl>`}`;
}

function resolved(part, schema) {
  const [, name] = part?.$ref?.match(/^#\/components\/schemas\/(.+)$/) ?? [];
  return name ? schema.components.schemas[name] ?? {} : part ?? {};
}

function words(part, schema) {
  const found = resolved(part, schema);
  const options = found.anyOf ?? found.oneOf;
  if (options) return [...new Set(options.map((one) => words(one, schema)))].join(" or ");
  if (found.enum) return found.enum.map((one) => JSON.stringify(one)).join(", ");
  if (found.const !== undefined) return JSON.stringify(found.const);
  const kind = found.type === "array" ? `list of ${words(found.items, schema)}` : found.type ?? "any JSON value";
  const limits = [found.minimum !== undefined && `from ${JSON.stringify(found.minimum)}`, found.maximum !== undefined && `to ${JSON.stringify(found.maximum)}`,
    found.default !== undefined && `default ${JSON.stringify(found.default)}`].filter(Boolean).join(", ");
  return limits ? `${kind}, ${limits}` : kind;
}

render(html`<${Docs} />`, document.getElementById("docs"));
