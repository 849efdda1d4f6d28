// The page: its frame, and the view that the address selects.
import { get, now, tenant, token } from "./api.js";
import { span } from "./format.js";
import { resume, useHealth, useLive } from "./live.js";
import { useRoute } from "./route.js";
import { setSession, useSession } from "./session.js";
import { TokenDialog } from "./token_dialog.js";
import { html, render, useEffect, useRef, useState } from "./view.js";
import { Developers } from "./views/developers.js";
import { IdempotencyLookup } from "./views/idempotency.js";
import { Instance } from "./views/instance.js";
import { Orchestrations } from "./views/orchestrations.js";
import { Overview } from "./views/overview.js";
import { Queue } from "./views/queue.js";
import { Queues } from "./views/queues.js";
import { Schedule, Schedules } from "./views/schedules.js";
import { Start } from "./views/start.js";
import { Workers } from "./views/workers.js";

const VIEWS = {
  overview: { text: "Overview", show: () => html`<${Overview} />` },
  orchestrations: { text: "Orchestrations", show: () => html`<${Orchestrations} />` },
  queues: { text: "Queues", show: () => html`<${Queues} />` },
  schedules: { text: "Schedules", show: () => html`<${Schedules} />` },
  workers: { text: "Workers", show: () => html`<${Workers} />` },
  idempotency: { text: "Idempotency", show: () => html`<${IdempotencyLookup} />` },
  developers: { text: "Developers", show: () => html`<${Developers} />` },
};
// Views of one thing, each below the view that lists them.
const DETAILS = {
  orchestration: { of: "orchestrations", show: (id) => html`<${Instance} key=${id} id=${id} />` },
  queue: { of: "queues", show: (name) => html`<${Queue} key=${name} name=${name} />` },
  schedule: { of: "schedules", show: (name) => html`<${Schedule} key=${name} name=${name} />` },
  start: { of: "orchestrations", list: true, show: (name) => html`<${Start} key=${name} name=${name} />` },
};

function Page() {
  const { kind, name } = useRoute();
  const detail = DETAILS[kind] && (name || DETAILS[kind].list) ? DETAILS[kind] : null;
  const chosen = detail?.of ?? (VIEWS[kind] ? kind : "overview");
  const title = name && detail ? name : VIEWS[chosen].text;
  const health = useHealth();
  const [asking, setAsking] = useState(false);
  // A new token may be of another role or tenant: everything is drawn anew.
  const [login, setLogin] = useState(0);
  useEffect(() => { document.title = `${title} · Holdfast`; }, [title]);
  useEffect(() => { if (health.closed) setAsking(true); }, [health.closed]);
  const entered = () => {
    setAsking(false);
    setLogin(login + 1);
    resume();
  };
  return html`
    <a class="skip" href="#main" onClick=${skip}>Skip to the content</a>
    <${Bar} key=${login} chosen=${chosen} health=${health} onForget=${entered} />
    <${Trouble} health=${health} onEnter=${() => setAsking(true)} />
    <main id="main" tabindex="-1" class=${health.problem ? "stale" : ""} key=${`${kind} ${login}`}>
      ${detail ? detail.show(name) : VIEWS[chosen].show()}</main>
    ${asking && html`<${TokenDialog} refused=${token.held !== null} onEntered=${entered} onCancel=${() => setAsking(false)} />`}`;
}

function skip(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

function Bar({ chosen, health, onForget }) {
  const { value: status } = useLive(async () => {
    const answer = await get("status");
    setSession(answer);
    return answer;
  }, []);
  const session = useSession();
  const [state, good] = stateOf(health, status);
  const whose = session.tenant && session.tenant !== "default" ? `tenant ${session.tenant} · ` : "";
  const role = session.known && session.role !== "operator" ? `${session.role} · ` : "";
  const up = status && span(Math.max(0, now() - Date.parse(status.started_at)) / 1000);
  const nav = useRef();
  // On a phone only some of the links are in sight.
  useEffect(() => {
    const { offsetLeft: left, offsetWidth: width } = nav.current.querySelector("[aria-current]");
    nav.current.scrollLeft = left - nav.current.offsetLeft - (nav.current.offsetWidth - width) / 2;
  }, [chosen]);
  const forget = () => {
    token.forget();
    onForget();
  };
  return html`<header class="bar">
    <a class="brand" href="#/"><img src="page/favicon.svg" alt="" width="26" height="26" /><h1>Holdfast</h1></a>
    <nav aria-label="Views" ref=${nav}>${Object.entries(VIEWS).map(([kind, { text }]) => html`
      <a key=${kind} href=${`#/${kind === "overview" ? "" : kind}`} aria-current=${kind === chosen ? "page" : undefined}>${text}</a>`)}</nav>
    <p class=${`state ${good ? "good" : health.problem ? "bad" : ""}`} role="status">${state}</p>
    <p class="facts">${whose}${role}${status && html`<span title=${`up ${up}`}>${status.host} host · ${status.version}</span>`}</p>
    ${token.held && html`<button class="plain small" type="button" onClick=${forget}>Forget the token</button>`}
  </header>`;
}

function stateOf(health, status) {
  if (health.closed) return ["token needed", false];
  if (!status) return [health.problem ? "not connected" : "connecting…", false];
  if (!health.reached) return ["not connected", false];
  return status.ready ? ["ready", true] : [`not ready: ${status.reason}`, false];
}

function Trouble({ health, onEnter }) {
  const bad = tenant !== null && !tenant ? "The tenant in the address is empty." : health.problem;
  return bad && html`<div class="problem top" role="alert"><span>${bad}</span>
    ${health.closed && html`<button class="small" type="button" onClick=${onEnter}>Enter a token</button>`}</div>`;
}

render(html`<${Page} />`, document.getElementById("page"));
