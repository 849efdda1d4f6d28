// What the server said of this caller: tenant, role and host.
import { useEffect, useState } from "./view.js";

const RANKS = { reader: 1, user: 2, operator: 3 };
const listeners = new Set();
// Until the server has answered, nothing is offered.
let current = { role: "reader", known: false, actors: [] };

export function setSession(status) {
  current = { ...status, known: true };
  for (const listener of listeners) listener(current);
}

export function useSession() {
  const [session, set] = useState(current);
  useEffect(() => {
    set(current);
    listeners.add(set);
    return () => listeners.delete(set);
  }, []);
  return session;
}

// Returns whether the caller's role is at least this one, so that buttons the server would refuse are not shown.
export function useMay(role) {
  return RANKS[useSession().role] >= RANKS[role];
}
