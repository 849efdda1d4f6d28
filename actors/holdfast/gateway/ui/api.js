// Calls the server's REST API. Failures are Errors whose messages can be shown.

const TIMEOUT_MS = 15000;
const TOKEN = "holdfast-token";
let offset = 0;

export class Unreachable extends Error {
  constructor(reason, options) {
    super(`${reason}.`, options);
    this.reason = reason;
  }
}

export class Refused extends Error {
  constructor(status, body) {
    super(body.message || `The server answered ${status} without a message.`);
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

// The tenant, for a token that is not bound to one: from the page's address, as in /?tenant=acme.
export const tenant = new URLSearchParams(location.search).get("tenant");

// The server's clock in milliseconds, by which locks expire; the browser's may differ.
export const now = () => Date.now() + offset;

// path`queue/${name}/push`, relative to the page's address, with every part encoded.
export function path(texts, ...parts) {
  return texts.reduce((whole, text, place) => whole + segment(parts[place - 1]) + text);
}

function segment(part) {
  // A browser resolves these even when they are encoded, and would request another path.
  if (/^\.{0,2}$/.test(part)) throw new Refused(400, { message: "An id must not be empty or consist of dots." });
  return encodeURIComponent(part);
}

export const get = (where) => ask("GET", where);
export const post = (where, text = "") => ask("POST", where, text);
export const put = (where, text) => ask("PUT", where, text);
export const remove = (where) => ask("DELETE", where);

// The headers that say who calls.
export function headers() {
  // fetch would reject it as a header value; other invalid names are refused by the server.
  if (tenant && /[^\x21-\x7e]/.test(tenant)) throw new Refused(400, { message: "This is not a valid tenant name." });
  return {
    ...(token.held && { Authorization: `Bearer ${token.held}` }),
    ...(tenant && { "Holdfast-Tenant": tenant }),
  };
}

export async function ask(method, where, text) {
  const identity = headers();
  let answer;
  let received;
  try {
    answer = await fetch(where, {
      method, headers: identity, body: text || undefined, cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    received = await answer.text();
  } catch (error) {
    throw new Unreachable(error.name === "TimeoutError"
      ? `No answer from the server for ${TIMEOUT_MS / 1000} seconds`
      : "Cannot reach the server", { cause: error });
  }
  setClock(answer.headers.get("date"));
  const body = parse(received);
  if (!answer.ok) throw new Refused(answer.status, body ?? {});
  return body;
}

function setClock(date) {
  const difference = Date.parse(date) + 500 - Date.now();
  // The header has whole seconds.
  offset = Math.abs(difference) > 1500 ? difference : 0;
}

// Returns undefined for text that is not JSON, such as an empty body or a proxy's error page.
function parse(text) {
  try {
    return JSON.parse(text, JSON.rawJSON ? withAllDigits : undefined);
  } catch {
    return undefined;
  }
}

// Keeps all digits of integers beyond 2^53.
function withAllDigits(key, value, { source }) {
  const whole = typeof value === "number" && /^-?\d+$/.test(source);
  return whole && !Number.isSafeInteger(value) ? JSON.rawJSON(source) : value;
}
