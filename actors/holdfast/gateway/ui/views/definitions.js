// The deployed orchestrations and activities, asked for once: they change only with a new server.
import { get } from "../api.js";
import { html, useEffect, useState } from "../view.js";

const NONE = { orchestrations: [], activities: [] };
let asked = null;

export function useDefinitions() {
  const [shown, set] = useState(NONE);
  useEffect(() => {
    asked ??= get("definitions");
    asked.then(set, () => { asked = null; });
  }, []);
  return shown;
}

// The definition of an instance, or undefined when this server has another version.
export const definitionOf = ({ orchestrations }, { name, version }) =>
  orchestrations.find((one) => one.name === name && one.version === version);

// A list of names for an input.
export const Names = ({ id, names }) =>
  html`<datalist id=${id}>${[...new Set(names)].map((name) => html`<option value=${name} />`)}</datalist>`;
