// Actions on several instances: the chosen ones, or all that match the filter of the list.
import { path, post, remove } from "../api.js";
import { count } from "../format.js";
import { Form, Outcome, useAction } from "../parts.js";
import { html, useState } from "../view.js";

const WORDS = {
  cancel: "Cancel", suspend: "Suspend", resume: "Resume", rerun: "Rerun from the failure", delete: "Delete",
};
const DANGEROUS = new Set(["cancel", "delete"]);
// In one call, which has to be answered in time.
const COUNTED_AT_ONCE = 1000;
const DONE_AT_ONCE = 100;
const REPEATED = new Set(["status", "tag"]);

const one = {
  cancel: (id) => post(path`orchestrations/${id}/cancel`, "{}"),
  suspend: (id) => post(path`orchestrations/${id}/suspend`),
  resume: (id) => post(path`orchestrations/${id}/resume`),
  rerun: (id) => post(path`orchestrations/${id}/rerun`, '{"from": "failure"}'),
  delete: (id) => remove(path`orchestrations/${id}`),
};

async function each(ids, action, progress) {
  const failed = [];
  for (const [place, id] of ids.entries()) {
    progress(`${place} of ${ids.length}…`);
    try {
      await one[action](id);
    } catch (error) {
      if (!error.status || error.status === 401) throw error;
      failed.push(`${id}: ${error.message}`);
    }
  }
  return said(ids.length - failed.length, failed);
}

async function matching(filter, action, progress) {
  let done = 0;
  const failed = [];
  for (let cursor; ;) {
    const answer = await bulk(filter, action, { limit: DONE_AT_ONCE, ...(cursor && { cursor }) });
    done += answer.done;
    failed.push(...answer.failed);
    cursor = answer.next_cursor;
    if (!cursor) return said(done, failed);
    progress(`${done} done…`);
  }
}

const said = (done, failed) => `${count(done, "instance")} done.${failed.length
  ? ` Not possible for ${failed.length}: ${failed.slice(0, 5).join("; ")}${failed.length > 5 ? "; …" : ""}` : ""}`;

function bulk(filter, action, more) {
  const wanted = {};
  for (const key of new Set(filter.keys())) wanted[key] = REPEATED.has(key) ? filter.getAll(key) : filter.get(key);
  return post("orchestrations/bulk", JSON.stringify({ action, filter: wanted, ...more }));
}

export function BulkActions({ chosen, filter, onDone }) {
  const [whole, setWhole] = useState(false);
  const [asked, setAsked] = useState(null);
  const { run, outcome, busy, tell } = useAction();
  const matches = whole && filter;
  if (chosen.length === 0 && !filter && !outcome.text) return null;
  const start = (action) => run(async () => {
    if (!matches) {
      setAsked({ action, text: count(chosen.length, "chosen instance") });
      return "";
    }
    const { matched, next_cursor: more } = await bulk(filter, action, { limit: COUNTED_AT_ONCE, dry_run: true });
    setAsked({ action, text: `${more ? `more than ${matched}` : matched} instances that match` });
    return "";
  });
  const confirm = () => run(async (progress) => {
    const { action } = asked;
    setAsked(null);
    const text = matches ? await matching(filter, action, progress) : await each(chosen, action, progress);
    onDone();
    return text;
  });
  const none = !matches && chosen.length === 0;
  return html`<div class="card bulk" role="group" aria-label="Actions on several instances">
    <span class="quiet">${matches ? "All that match" : count(chosen.length, "instance") + " chosen"}</span>
    ${filter && html`<label class="choice"><input type="checkbox" checked=${whole}
      onChange=${({ target }) => { setWhole(target.checked); setAsked(null); tell(""); }} /> all that match the filter</label>`}
    ${Object.entries(WORDS).map(([action, word]) => html`<button type="button" class="plain small" key=${action}
      disabled=${none || busy} onClick=${() => start(action)}>${word}</button>`)}
    ${asked && html`<${Form} title="Confirm" onSubmit=${confirm}>
      <p>${WORDS[asked.action]} ${asked.text}?</p>
      <button class=${DANGEROUS.has(asked.action) ? "danger" : ""} disabled=${busy}>Yes, ${WORDS[asked.action].toLowerCase()}</button>
      <button class="plain" type="button" onClick=${() => setAsked(null)}>No</button><//>`}
    <${Outcome} outcome=${outcome} /></div>`;
}
