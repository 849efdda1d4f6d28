// A failure with its traceback and the errors that caused it.
import { html } from "../view.js";

export function Failure({ error }) {
  return html`<div class="failure-body">
    <p class="value"><b>${error.type}</b>${error.kind && error.kind !== "error" && html` <span class="badge bad">${error.kind}</span>`}
      ${error.message && `: ${error.message}`}</p>
    ${error.traceback && html`<details open><summary>Traceback</summary>
      <pre tabindex="0" role="region" aria-label="Traceback">${error.traceback}</pre></details>`}
    ${error.cause && html`<div class="cause"><p class="quiet">Caused by</p><${Failure} error=${error.cause} /></div>`}
  </div>`;
}
