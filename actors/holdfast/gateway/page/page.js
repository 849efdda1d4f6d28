// Text goes into the page as text only: nothing here writes HTML.
const at = (id) => document.getElementById(id);
const REFRESH_MS = 2000;
let started = null;

function show(id, text) {
  at(id).textContent = text;
}

function span(seconds) {
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = parts.findIndex(([size]) => seconds >= size);
  if (first < 0) return "0 s";
  let rest = Math.floor(seconds);
  return parts.slice(first, first + 2).map(([size, unit]) => {
    const count = Math.floor(rest / size);
    rest -= count * size;
    return `${count} ${unit}`;
  }).join(" ");
}

function row(actor) {
  const line = document.createElement("tr");
  for (const [text, kind] of [[actor.type, ""], [actor.active.toLocaleString(), "number"]]) {
    const cell = document.createElement("td");
    cell.textContent = text;
    cell.className = kind;
    line.append(cell);
  }
  return line;
}

function draw(status) {
  started = new Date(status.started_at);
  show("version", status.version);
  show("host", status.host);
  show("uptime", span((Date.now() - started) / 1000));
  show("state", status.ready ? "ready" : `not ready: ${status.reason}`);
  at("state").className = `state ${status.ready ? "good" : "bad"}`;
  at("actors").replaceChildren(...status.actors.map(row));
  const types = status.actors.map((actor) => actor.type);
  const select = at("call-type");
  if ([...select.options].map((option) => option.value).join() !== types.join()) {
    select.replaceChildren(...types.map((type) => new Option(type, type)));
    command();
  }
  at("call").hidden = status.host !== "embedded" || types.length === 0;
}

async function refresh() {
  try {
    const answer = await fetch("/status");
    const body = await answer.json();
    if (!answer.ok) throw new Error(body.message);
    draw(body);
    at("problem").hidden = true;
  } catch (error) {
    show("state", "not connected");
    at("state").className = "state bad";
    show("problem", `The server does not answer: ${error.message}`);
    at("problem").hidden = false;
  }
  setTimeout(refresh, document.hidden ? 5 * REFRESH_MS : REFRESH_MS);
}

function target() {
  const part = (id) => encodeURIComponent(at(id).value);
  return `/v1.0/actors/${part("call-type")}/${part("call-id")}/method/${part("call-method")}`;
}

function command() {
  const body = at("call-body").value.replaceAll("'", "'\\''");
  show("call-command", `curl -X POST '${location.origin}${target()}' -d '${body}'`);
}

async function call(event) {
  event.preventDefault();
  const output = at("call-answer");
  try {
    const answer = await fetch(target(), { method: "POST", body: at("call-body").value });
    const text = await answer.text();
    output.textContent = answer.ok ? text || "(no answer)" : JSON.parse(text).message;
    output.className = answer.ok ? "" : "bad";
  } catch (error) {
    output.textContent = error.message;
    output.className = "bad";
  }
}

at("call-form").addEventListener("submit", call);
at("call-form").addEventListener("input", command);
refresh();
