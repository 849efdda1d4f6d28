// The address of a view: #/kind/name?filters.
import { useEffect, useState } from "./view.js";

export function route() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [kind, ...rest] = path.split("/");
  return { kind: kind || "overview", name: decoded(rest.join("/")), filters: new URLSearchParams(query) };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function useRoute() {
  const [shown, set] = useState(route);
  useEffect(() => {
    const changed = () => set(route());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return shown;
}

export const toQueue = (name) => `#/queue/${encodeURIComponent(name)}`;
export const toInstance = (id) => `#/orchestration/${encodeURIComponent(id)}`;
export const toSchedule = (name) => `#/schedule/${encodeURIComponent(name)}`;
export const toStart = (name) => `#/start/${encodeURIComponent(name)}`;
export const toInstances = (filters) => `#/orchestrations${filtered(filters)}`;

function filtered(filters) {
  const query = new URLSearchParams(Object.entries(filters).filter(([, value]) => value)).toString();
  return query ? `?${query}` : "";
}

// Changes the filters of the shown list without a new entry in the browser's history for each letter.
export function setFilters(filters) {
  history.replaceState(null, "", toInstances(filters));
  dispatchEvent(new HashChangeEvent("hashchange"));
}

export function go(hash) {
  location.hash = hash;
}
