// For developers: links, the actors of this server, and a form that calls one.
import { path, post, Refused } from "../api.js";
import { curl, number } from "../format.js";
import { Card, Form, Outcome, Title, useAction } from "../parts.js";
import { useMay, useSession } from "../session.js";
import { html, useState } from "../view.js";

export function Developers() {
  const { actors, host, bound, known } = useSession();
  const operates = useMay("operator");
  return html`<${Title}>Developers<//>
    <${Card} title="Interfaces" name="interfaces"><ul class="rows">
      <li><a href="docs">REST calls</a><span class="quiet">what the server answers, from its OpenAPI document</span></li>
      <li><a href="openapi.json">openapi.json</a><span class="quiet">for generators of clients</span></li>
      <li><a href="metrics">metrics</a><span class="quiet">for Prometheus</span></li></ul><//>
    ${actors.length > 0 && html`<div class="halves"><${Card} title="Actors" name="actors"><table class="list"><thead><tr><th scope="col">Type</th><th scope="col" class="number">Active now</th></tr></thead>
      <tbody>${actors.map(({ type, active }) => html`<tr key=${type}><td>${type}</td><td class=${`number ${active ? "" : "none"}`}>${number(active)}</td></tr>`)}</tbody></table><//>
      ${host === "embedded" && operates && html`<${Call} actors=${actors} />`}</div>`}
    ${known && bound && html`<p class="quiet">Actors are shown to tokens that are not bound to a tenant.</p>`}`;
}

// Dapr's API wraps the actor's error message; returns the inner one.
function innermost(message) {
  try {
    return JSON.parse(message.slice(message.indexOf("{"))).message ?? message;
  } catch {
    return message;
  }
}

function Call({ actors }) {
  const { run, outcome } = useAction();
  const [given, set] = useState({ type: actors[0].type, id: "demo", method: "Add", body: "1" });
  const change = ({ target }) => set((before) => ({ ...before, [target.name]: target.value }));
  const where = () => path`v1.0/actors/${given.type}/${given.id}/method/${given.method}`;
  const command = () => {
    try {
      return curl(where(), given.body);
    } catch (error) {
      return error.message;
    }
  };
  const call = () => run(async () => {
    try {
      const answer = await post(where(), given.body);
      return answer === undefined ? "(no answer)" : JSON.stringify(answer);
    } catch (error) {
      if (error instanceof Refused) error.message = innermost(error.message);
      throw error;
    }
  });
  const field = (title, name) => html`<label>${title} <input name=${name} value=${given[name]} onInput=${change} maxlength="255" autocapitalize="off"
    spellcheck=${false} required=${name !== "body"} /></label>`;
  return html`<${Card} title="Call an actor" name="call"><${Form} title="Call an actor" onSubmit=${call}>
    <label>Type <select name="type" onChange=${change}>${actors.map(({ type }) => html`<option value=${type} selected=${type === given.type}>${type}</option>`)}</select></label>
    ${field("Id", "id")}${field("Method", "method")}${field("JSON", "body")}<button>Call</button><//>
    <${Outcome} outcome=${outcome} /><pre class="command" tabindex="0">${command()}</pre><//>`;
}
