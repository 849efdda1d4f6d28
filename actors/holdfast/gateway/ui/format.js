// Formats numbers, times and durations for people.
import { now, tenant, token } from "./api.js";

const numbers = new Intl.NumberFormat("en");
const times = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const dates = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

export const number = (value) => numbers.format(value);

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

export function moment(date) {
  return (date.toDateString() === new Date(now()).toDateString() ? times : dates).format(date);
}

export function label(name) {
  const text = name.replaceAll("_", " ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

// Makes a <time> element show the time since or until a date, updated every second.
export function live(element, date, kind) {
  const iso = date.toISOString();
  if (element.dateTime !== iso) {
    element.dateTime = iso;
    element.title = moment(date);
  }
  element.dataset.live = kind;
  tick(element);
}

function tick(element) {
  const seconds = (Date.parse(element.dateTime) - now()) / 1000;
  const text = element.dataset.live === "left"
    ? seconds > 0 ? `${span(Math.ceil(seconds))} left` : "expired"
    : -seconds < 1 ? "now" : `${age(-seconds)} ago`;
  if (element.textContent !== text) element.textContent = text;
}

setInterval(() => {
  if (!document.hidden) document.querySelectorAll("time[data-live]").forEach(tick);
}, 1000);

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

// Returns the curl command for a call. A token is given as a variable, never as its value.
export function curl(where, body) {
  const authorization = token.held ? ' -H "Authorization: Bearer $HOLDFAST_TOKEN"' : "";
  const whose = tenant ? ` -H ${quoted(`Holdfast-Tenant: ${tenant}`)}` : "";
  return `curl -X POST${authorization}${whose} ${quoted(new URL(where, document.baseURI).href)} -d ${quoted(body)}`;
}
