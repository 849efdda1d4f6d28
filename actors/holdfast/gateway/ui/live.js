// Keeps what is shown up to date. Each look fetches one part of a view; looks are repeated while the page is visible,
// less often when answers are slow, backing off while they fail.
import { Refused, Unreachable } from "./api.js";
import { useEffect, useRef, useState } from "./view.js";

const EVERY_MS = 2000;
const AT_MOST_MS = 15000;
// At most one part in this many of the time is spent waiting for answers.
const SHARE = 10;

const looks = new Set();
const listeners = new Set();
let health = { reached: false, problem: null, closed: false };
let timer;
let looking = false;
let again = false;
let failures = 0;
let stopped = false;

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

// Looks at everything at once; if a look is in progress, once more after it.
export async function refresh() {
  if (stopped) return;
  clearTimeout(timer);
  if (looking) {
    again = true;
    return;
  }
  looking = true;
  const start = performance.now();
  let errors;
  do {
    again = false;
    errors = (await Promise.all([...looks].map((look) => look()))).filter(Boolean);
  } while (again && !stopped);
  looking = false;
  report(errors);
  failures = errors.length ? failures + 1 : 0;
  const pause = Math.max(EVERY_MS * 2 ** Math.min(failures, 2), SHARE * (performance.now() - start));
  if (!document.hidden && !stopped) timer = setTimeout(refresh, Math.min(pause, AT_MOST_MS));
}

function report(errors) {
  const unreachable = errors.find((error) => error instanceof Unreachable);
  const closed = errors.some((error) => error.status === 401);
  if (closed) {
    stopped = true;
    clearTimeout(timer);
  }
  const problem = unreachable ? `${unreachable.reason}, retrying` : errors[0]?.message ?? null;
  setHealth({ reached: !unreachable, problem: closed ? "This server requires a token." : problem, closed });
  // Errors without a status are bugs of the page, for the console.
  for (const error of errors) if (!(error instanceof Unreachable) && !error.status) console.error(error);
}

export function resume() {
  stopped = false;
  setHealth({ ...health, problem: null, closed: false });
  return refresh();
}

document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : refresh()));
addEventListener("online", refresh);

// Loads a value, and again whenever it may have changed. Returns {value, error}: a refusal of this one look is shown
// by its view, and the rest of the page keeps working. With other `inputs` the old value stays until the new one is
// there; give the component another key where it must not.
export function useLive(load, inputs) {
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
    looks.add(look);
    refresh();
    return () => {
      gone = true;
      looks.delete(look);
    };
  }, inputs);
  return shown;
}
