// Small parts that several views share.
import { now } from "./api.js";
import { age, label, moment, number, span } from "./format.js";
import { refresh } from "./live.js";
import { html, useEffect, useId, useLayoutEffect, useRef, useState } from "./view.js";

const WHOLE = 50_000;
const KINDS = {
  PENDING: "quiet", RUNNING: "under-way", SUSPENDED: "paused", BLOCKED: "bad", COMPLETED: "good", FAILED: "bad",
  CANCELLED: "paused",
};

export const Badge = ({ status }) =>
  html`<span class=${`badge ${KINDS[status] ?? ""}`}>${status ? status.toLowerCase() : "deleted"}</span>`;

// Redraws once a second.
function useSeconds() {
  const [, set] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || set((n) => n + 1), 1000);
    return () => clearInterval(timer);
  }, []);
}

// The time since or until a date: "ago", "ahead", "left" until it expires, or "for" how long.
export function Time({ at, kind = "ago" }) {
  useSeconds();
  const date = new Date(at);
  const seconds = (date - now()) / 1000;
  const until = seconds > 0 ? `${span(Math.ceil(seconds))} left` : "expired";
  const ahead = seconds > 0 ? `in ${age(Math.ceil(seconds))}` : "now";
  const ago = -seconds < 1 ? "now" : `${age(-seconds)} ago`;
  return html`<time datetime=${date.toISOString()} title=${moment(date)}>${{ left: until, ahead, ago, for: age(-seconds) }[kind]}</time>`;
}

// A JSON value as text.
export function Payload({ value, name }) {
  const text = JSON.stringify(value, null, 2);
  return html`<pre tabindex="0" role="region" aria-label=${name}>${text.slice(0, WHOLE)}${text.length > WHOLE
    && html`<em> … ${number(text.length - WHOLE)} characters more</em>`}</pre>`;
}

// Names and values; `facts` is a list of [name, value].
export const Facts = ({ facts }) => html`<dl class="facts-list">${facts
  .map(([name, value]) => html`<dt key=${`${name}?`}>${name}</dt><dd key=${name}>${value}</dd>`)}</dl>`;

// The fields of an object as facts, without the empty ones.
export function factsOf(object, left = []) {
  return Object.entries(object).filter(([name, value]) => value !== null && value !== "" && !left.includes(name))
    .map(([name, value]) => [label(name), shown(name, value)]);
}

function shown(name, value) {
  if (name.endsWith("_at")) return moment(new Date(typeof value === "number" ? value * 1000 : value));
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

export function Card({ title, side, name, children }) {
  const id = useId();
  return html`<section class=${`card ${name ?? ""}`} aria-labelledby=${id}>
    <div class="head"><h3 id=${id}>${title}</h3>${side && html`<div class="side">${side}</div>`}</div>${children}</section>`;
}

export const Problem = ({ error }) => error && html`<p class="problem" role="alert">${error.message}</p>`;

// The heading of a view, which gets the focus when the view is opened from another one.
export function Title({ children, back, tools }) {
  const heading = useRef();
  useLayoutEffect(() => {
    if (moved.on) {
      heading.current.focus({ preventScroll: true });
      scrollTo(0, 0);
    }
  }, []);
  return html`<div class="view-head">
    ${back && html`<a class="back" href=${back.to}>← ${back.text}</a>`}
    <h2 class="title" tabindex="-1" ref=${heading}>${children}</h2>${tools}</div>`;
}

// Set by the first change of the address: the first view leaves the focus where it is.
export const moved = { on: false };
addEventListener("hashchange", () => { moved.on = true; });

// Runs one action at a time: returns {run, outcome, busy}. The action resolves to the text that says what was done.
export function useAction() {
  const [outcome, set] = useState({ text: "", bad: false });
  const [busy, setBusy] = useState(false);
  const running = useRef(false);
  const run = async (action) => {
    if (running.current) return false;
    running.current = true;
    setBusy(true);
    try {
      const text = await action((partly) => set({ text: partly, bad: false }));
      set({ text, bad: false });
      refresh();
      return true;
    } catch (error) {
      const until = error.body?.lock_expires_at;
      const expiry = until ? ` The lock expires at ${moment(new Date(until * 1000))}.` : "";
      set({ text: `${error.message}${expiry}`, bad: true });
      if (!error.status && !error.reason) console.error(error);
      return false;
    } finally {
      running.current = false;
      setBusy(false);
    }
  };
  return { run, outcome, busy, tell: (text, bad = false) => set({ text, bad }) };
}

export const Outcome = ({ outcome }) =>
  html`<output class=${outcome.bad ? "outcome bad" : "outcome"} role="status">${outcome.text}</output>`;

// Returns the text of a field as JSON text, unparsed, so that no digit is lost. Throws what can be shown.
export function jsonOf(text) {
  const trimmed = text.trim() || "null";
  try {
    JSON.parse(trimmed);
  } catch (error) {
    throw Object.assign(new Error(`This is not JSON: ${error.message}`), { status: 400 });
  }
  return trimmed;
}

// Buttons of which some open a panel; one panel is open at a time. `actions` are {name, text, panel} or {name, text,
// run}; a panel is a function of {close} to markup, and the element with data-first gets the focus.
export function Tools({ title, actions }) {
  const [open, setOpen] = useState(null);
  const group = useRef();
  const panel = useRef();
  const shown = actions.find((action) => action.panel && action.name === open);
  useLayoutEffect(() => {
    if (shown) panel.current.querySelector("[data-first]")?.focus();
  }, [shown?.name]);
  // The button that had the focus may be gone.
  useEffect(() => {
    if (document.activeElement === document.body && lost.of === group.current) group.current.querySelector("button")?.focus();
  });
  const close = () => {
    setOpen(null);
    lost.of = group.current;
    group.current.querySelector(`[data-action="${open}"]`)?.focus();
  };
  const press = (action) => {
    lost.of = group.current;
    if (action.run) action.run();
    else setOpen(open === action.name ? null : action.name);
  };
  return html`<div class="tools-box">
    <div class="tools" role="group" aria-label=${title} ref=${group}>${actions.map((action) => html`
      <button key=${action.name} type="button" data-action=${action.name} onClick=${() => press(action)}
        aria-expanded=${action.panel ? String(action.name === open) : undefined}>${action.text}</button>`)}</div>
    ${shown && html`<div class="card panel-box" ref=${panel} role="group" aria-label=${shown.title ?? shown.text}
      onKeyDown=${({ key }) => key === "Escape" && close()}>${shown.panel({ close })}</div>`}</div>`;
}

// The tools that were used last.
const lost = { of: null };

export const Form = ({ onSubmit, children, name, title }) => html`<form class=${`panel ${name ?? ""}`} aria-label=${title}
  onSubmit=${(event) => {
    event.preventDefault();
    onSubmit(new FormData(event.target), event.target);
  }}>${children}</form>`;

// Submits the form of a text area with Ctrl or Command and Enter.
export const submitKey = (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.target.form.requestSubmit();
};

export const JsonField = ({ title, name, value = "null", rows = 3, first }) => html`<label class="wide">${title}
  <textarea name=${name} rows=${rows} spellcheck=${false} autocapitalize="off" data-first=${first}
    onKeyDown=${submitKey} defaultValue=${value}></textarea></label>`;

// A panel that asks before something is destroyed; with `typed`, that text has to be typed in first.
export function Confirm({ text, typed, button, keep = "Keep", onConfirm, close }) {
  const [given, set] = useState("");
  const sure = !typed || given === typed;
  return html`<${Form} onSubmit=${() => sure && onConfirm()}>
    <p class="wide">${text}</p>
    ${typed && html`<label class="wide">Type <b>${typed}</b> to confirm
      <input name="typed" autocomplete="off" autocapitalize="off" spellcheck=${false} data-first
        onInput=${(event) => set(event.target.value)} /></label>`}
    <button class="danger" disabled=${!sure}>${button}</button>
    <button class="plain" type="button" data-first=${!typed} onClick=${close}>${keep}</button>
  <//>`;
}
