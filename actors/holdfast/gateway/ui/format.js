// Formats numbers, times and durations for people.
import { now, tenant, token } from "./api.js";

const numbers = new Intl.NumberFormat("en");
const few = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const times = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const dates = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

// A number that is not known is not zero.
export const number = (value) => (value === null || value === undefined ? "?" : numbers.format(value));

export const rate = (perSecond) => `${few.format(perSecond)}/s`;

export const count = (many, one, several = `${one}s`) => `${number(many)} ${many === 1 ? one : several}`;

export function span(seconds) {
  const first = UNITS.findIndex(([size]) => seconds >= size);
  if (first < 0) return "0 s";
  let rest = Math.floor(seconds);
  return UNITS.slice(first, first + 2).map(([size, unit]) => {
    const many = Math.floor(rest / size);
    rest -= many * size;
    return [many, unit];
  }).filter(([many], place) => many || place === 0).map(([many, unit]) => `${many} ${unit}`).join(" ");
}

// From one minute on, without seconds.
export function age(seconds) {
  return span(seconds < 60 ? seconds : Math.floor(seconds / 60) * 60);
}

// Short durations with fractions of a second.
export function precise(milliseconds) {
  if (milliseconds < 1000) return `${Math.max(0, Math.round(milliseconds))} ms`;
  return milliseconds < 10_000 ? `${(milliseconds / 1000).toFixed(1)} s` : span(milliseconds / 1000);
}

export function moment(date) {
  return (date.toDateString() === new Date(now()).toDateString() ? times : dates).format(date);
}

export function label(name) {
  const text = name.replaceAll("_", " ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

// Returns the curl command for a call. A token is given as a variable, never as its value.
export function curl(where, body) {
  const authorization = token.held ? ' -H "Authorization: Bearer $HOLDFAST_TOKEN"' : "";
  const whose = tenant ? ` -H ${quoted(`Holdfast-Tenant: ${tenant}`)}` : "";
  return `curl -X POST${authorization}${whose} ${quoted(new URL(where, document.baseURI).href)} -d ${quoted(body)}`;
}
