// The server, asked over REST. What goes wrong is an Error whose message can be shown.

const PATIENCE_MS = 15000;
const TOKEN = "holdfast-token";
let offset = 0;

export class Unreachable extends Error {}

export class Refused extends Error {
  constructor(status, body) {
    super(body.message || `The server answered ${status} without a reason.`);
    this.status = status;
    this.code = body.error_code;
    this.body = body;
  }
}

export const token = {
  get held() { return sessionStorage.getItem(TOKEN); },
  keep(value) { sessionStorage.setItem(TOKEN, value); },
  forget() { sessionStorage.removeItem(TOKEN); },
};

// Whose queues are shown, where a token does not say so: the page's own address does, as in /?tenant=acme.
export const tenant = new URLSearchParams(location.search).get("tenant");

// The server's clock in milliseconds: what it says of locks is said by that one, not by the browser's.
export const now = () => Date.now() + offset;

// path`queue/${name}/push`, relative to where the page is, with every part encoded.
export function path(texts, ...parts) {
  return texts.reduce((whole, text, place) => whole + segment(parts[place - 1]) + text);
}

function segment(part) {
  // A browser resolves these even when they are encoded, and would ask for another path.
  if (/^\.{0,2}$/.test(part)) throw new Refused(400, { message: "An id must not be empty, nor start with a dot." });
  return encodeURIComponent(part);
}

export const get = (where) => ask("GET", where);
export const post = (where, text = "") => ask("POST", where, text);
export const put = (where, text) => ask("PUT", where, text);
export const remove = (where) => ask("DELETE", where);

export async function ask(method, where, text) {
  // Sent as it is, it would be no header at all, and for the server to refuse otherwise.
  if (tenant && /[^\x21-\x7e]/.test(tenant)) throw new Refused(400, { message: "This is no tenant's name." });
  const headers = {
    ...(token.held && { Authorization: `Bearer ${token.held}` }),
    ...(tenant && { "Holdfast-Tenant": tenant }),
  };
  let answer;
  let said;
  try {
    answer = await fetch(where, {
      method, headers, body: text || undefined, cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS),
    });
    said = await answer.text();
  } catch (error) {
    throw new Unreachable(error.name === "TimeoutError"
      ? `The server has not answered for ${PATIENCE_MS / 1000} seconds.`
      : "The server does not answer.", { cause: error });
  }
  setClock(answer.headers.get("date"));
  const body = parse(said);
  if (!answer.ok) throw new Refused(answer.status, body ?? {});
  return body;
}

function setClock(date) {
  const difference = Date.parse(date) + 500 - Date.now();
  // The header has whole seconds.
  offset = Math.abs(difference) > 1500 ? difference : 0;
}

// undefined for what is not JSON: what a proxy in between says, or nothing.
function parse(text) {
  try {
    return JSON.parse(text, JSON.rawJSON ? withAllDigits : undefined);
  } catch {
    return undefined;
  }
}

// Integers past 2^53 in a payload are shown as they were pushed.
function withAllDigits(key, value, { source }) {
  const whole = typeof value === "number" && /^-?\d+$/.test(source);
  return whole && !Number.isSafeInteger(value) ? JSON.rawJSON(source) : value;
}
