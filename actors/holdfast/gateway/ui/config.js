// Shows and changes the configuration of a queue.
import { path, put } from "./api.js";
import { at, el, list, tell } from "./dom.js";
import { label, number } from "./format.js";

const NAMES = new Set(["dead_letter_queue"]);
let queue;
let shown = {};

export function open(name) {
  queue = name;
  shown = {};
  at("config").replaceChildren();
  edit(false);
  tell(at("config-answer"), "");
}

export function draw(config) {
  shown = config;
  list(at("config"), Object.entries(config).map(([key, value]) => [label(key), formatted(key, value)]));
}

function formatted(key, value) {
  if (value === null) return key === "dead_letter_queue" ? "default" : "none";
  if (typeof value === "boolean") return value ? "yes" : "no";
  return typeof value === "number" ? number(value) : String(value);
}

function edit(on) {
  at("config").hidden = on;
  at("config-change").hidden = on;
  at("config-form").hidden = !on;
}

function field([key, value]) {
  const input = typeof value === "boolean"
    ? el("input", { type: "checkbox", name: key, checked: value })
    : el("input", {
      type: NAMES.has(key) ? "text" : "number", step: "any", name: key, value: value ?? "",
      placeholder: formatted(key, null), autocomplete: "off", spellcheck: "false",
    });
  return el("label", {}, label(key), input);
}

function typed(input) {
  if (input.type === "checkbox") return input.checked;
  if (input.value.trim() === "") return null;
  return input.type === "number" ? Number(input.value) : input.value.trim();
}

async function save(event) {
  event.preventDefault();
  const inputs = [...at("config-fields").querySelectorAll("input")];
  const changes = Object.fromEntries(inputs.map((input) => [input.name, typed(input)])
    .filter(([key, value]) => value !== shown[key]));
  try {
    draw(await put(path`queue/${queue}/config`, JSON.stringify(changes)));
    edit(false);
    at("config-change").focus();
    tell(at("config-answer"), "Saved.");
  } catch (error) {
    tell(at("config-answer"), error.message, true);
  }
}

export function begin() {
  at("config-change").addEventListener("click", () => {
    at("config-fields").replaceChildren(...Object.entries(shown).map(field));
    tell(at("config-answer"), "");
    edit(true);
    at("config-fields").querySelector("input").focus();
  });
  at("config-cancel").addEventListener("click", () => {
    edit(false);
    tell(at("config-answer"), "");
    at("config-change").focus();
  });
  at("config-form").addEventListener("submit", save);
}
