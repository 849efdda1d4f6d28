// Keeps what is shown up to date. Each look fetches one part of a view; looks are repeated when the server's events say
// that their topics have changed, and at intervals while the page is visible: less often when answers are slow, backing
// off while they fail.
import { Refused, Unreachable } from "./api.js";
import { Events } from "./events.js";
import { useEffect, useRef, useState } from "./view.js";

const EVERY_MS = 2000;
// While events arrive, for what has no events.
const EVERY_WITH_EVENTS_MS = 10000;
const AT_MOST_MS = 15000;
// At most one part in this many of the time is spent waiting for answers.
const SHARE = 10;

// Each look with its topics.
const looks = new Map();
// The server may be gone with its events.
const events = new Events(follow, () => refresh());
const listeners = new Set();
let health = { reached: false, problem: null, closed: false };
let timer;
let looking = false;
let again = false;
let failures = 0;
let stopped = false;
// The changes that are looked at when the rest after the last look is over.
const changes = new Set();
let catchUp;
let restUntil = 0;

function setHealth(next) {
  health = next;
  for (const listener of listeners) listener(health);
}

// Returns whether the server answers: {reached, problem, closed}; closed when it needs a token.
export function useHealth() {
  const [shown, set] = useState(health);
  useEffect(() => {
    set(health);
    listeners.add(set);
    return () => listeners.delete(set);
  }, []);
  return shown;
}

function follow(topics) {
  for (const topic of topics) changes.add(topic);
  clearTimeout(catchUp);
  const rest = restUntil - performance.now();
  if (rest > 0) {
    catchUp = setTimeout(() => follow([]), rest);
    return;
  }
  const due = new Set(changes);
  changes.clear();
  if (due.size) refresh(due);
}

// Looks at everything at once, or at the given topics; if a look is in progress, at everything once more after it.
export async function refresh(changed) {
  if (stopped || document.hidden) return;
  // A look at some topics does not put off the next look at everything.
  if (!changed) clearTimeout(timer);
  if (looking) {
    again = true;
    return;
  }
  looking = true;
  const start = performance.now();
  let errors;
  let whole = false;
  do {
    again = false;
    const wanted = [...looks].filter(([, topics]) => !changed || topics.some((topic) => changed.has(topic)));
    whole ||= !changed;
    changed = undefined;
    errors = (await Promise.all(wanted.map(([look]) => look()))).filter(Boolean);
  } while (again && !stopped);
  looking = false;
  report(errors);
  const rest = SHARE * (performance.now() - start);
  restUntil = performance.now() + Math.min(rest, AT_MOST_MS);
  if (!whole) return;
  clearTimeout(timer);
  failures = errors.length ? failures + 1 : 0;
  const every = events.open ? EVERY_WITH_EVENTS_MS : EVERY_MS;
  const pause = Math.max(every * 2 ** Math.min(failures, 2), rest);
  if (!document.hidden && !stopped) timer = setTimeout(() => refresh(), Math.min(pause, AT_MOST_MS));
}

function report(errors) {
  const unreachable = errors.find((error) => error instanceof Unreachable);
  const closed = errors.some((error) => error.status === 401);
  if (closed) {
    stopped = true;
    clearTimeout(timer);
    events.stop();
  }
  const problem = unreachable ? `${unreachable.reason}, retrying` : errors[0]?.message ?? null;
  setHealth({ reached: !unreachable, problem: closed ? "This server requires a token." : problem, closed });
  // Errors without a status are bugs of the page, for the console.
  for (const error of errors) if (!(error instanceof Unreachable) && !error.status) console.error(error);
}

export function resume() {
  stopped = false;
  setHealth({ ...health, problem: null, closed: false });
  watch();
  return refresh();
}

// A hidden page needs no connection, of which a browser has only a few for each server.
function watch() {
  if (stopped || document.hidden) events.stop();
  else events.watch([...looks.values()].flat());
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) clearTimeout(timer);
  else refresh();
  watch();
});
addEventListener("online", () => refresh());

// Loads a value, and again whenever it may have changed. Returns {value, error}: a refusal of this one look is shown
// by its view, and the rest of the page keeps working. With other `inputs` the old value stays until the new one is
// there; give the component another key where it must not. `topics` are the server's names of what it shows.
export function useLive(load, inputs, topics = []) {
  const [shown, set] = useState({ value: null, error: null });
  const current = useRef(load);
  current.current = load;
  useEffect(() => {
    let gone = false;
    const look = async () => {
      try {
        const value = await current.current();
        if (!gone) set({ value, error: null });
      } catch (error) {
        if (gone) return null;
        if (!(error instanceof Refused) || error.status === 401) return error;
        set((before) => ({ value: error.status === 404 ? null : before.value, error }));
      }
      return null;
    };
    looks.set(look, topics);
    refresh();
    // The views of one change of the address come and go together.
    setTimeout(watch);
    return () => {
      gone = true;
      looks.delete(look);
      setTimeout(watch);
    };
  }, inputs);
  return shown;
}
