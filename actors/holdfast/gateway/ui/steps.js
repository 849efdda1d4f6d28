// The steps of an execution, from its history: one for each activity with its attempts, child, timer, event or request.

const ENDS = {
  ActivityCompleted: "good", ActivityFailed: "bad", TimerFired: "good", SubOrchestrationCompleted: "good",
  SubOrchestrationFailed: "bad", EventRaised: "good",
};
const KINDS = {
  ActivityScheduled: "activity", TimerCreated: "timer", SubOrchestrationScheduled: "child", EventSubscribed: "event",
};

// Returns the steps in the order of their begin: {seq, kind, name, parts, child}. A part is one attempt, or the time
// before the next one: {from, to, state, seq, event, end}; `to` is null while it goes on.
export function stepsOf(events, waiting = []) {
  const steps = [];
  const parts = new Map();
  const requests = new Map();
  const add = (event, kind, name, more = {}) => {
    const part = { from: Date.parse(event.timestamp), to: null, state: "open", seq: event.seq, event };
    const step = { seq: event.seq, kind, name, parts: [part], ...more };
    steps.push(step);
    parts.set(event.seq, [step, part]);
    return part;
  };
  const close = (part, event, state) => Object.assign(part, { to: Date.parse(event.timestamp), state, end: event });
  for (const event of events) {
    const { type } = event;
    if (KINDS[type]) {
      const before = event.attempt > 1 ? failedBefore(steps, event) : undefined;
      if (before) retry(steps, parts, before, event);
      else add(event, KINDS[type], nameOf(event), { child: event.instance_id, due: event.fire_at && Date.parse(event.fire_at) });
    } else if (type in ENDS) {
      const [, part] = parts.get(event.scheduled_seq) ?? [];
      if (part) close(part, event, ENDS[type]);
      // Mail has no subscription, and what began earlier may not be loaded.
      else close(add(event, type === "EventRaised" ? "event" : "earlier", event.name ?? "an earlier step"), event, ENDS[type]);
    } else if (type === "RequestReceived") {
      requests.set(event.request_id, add(event, "request", event.name));
    } else if (type === "RequestAnswered" && requests.has(event.request_id)) {
      close(requests.get(event.request_id), event, event.rejected === undefined ? "good" : "bad");
    } else if (type === "OrchestrationSuspended") {
      add(event, "suspension", "suspended");
    } else if (type === "OrchestrationResumed") {
      const open = steps.findLast((step) => step.kind === "suspension" && !step.parts[0].to);
      if (open) close(open.parts[0], event, "quiet");
    } else if (type === "CancelRequested") {
      close(add(event, "cancellation", event.timed_out ? "time is over" : "cancel requested"), event, "bad");
    }
  }
  // Waits for mail and requests are not in the history.
  for (const { kind, name, since } of waiting.filter((one) => one.kind === "mailbox" || one.kind === "request")) {
    const part = { from: Date.parse(since), to: null, state: "open", seq: null };
    steps.push({ seq: `${kind} ${name} ${since}`, kind: `waits for a ${kind === "mailbox" ? "mail" : kind}`, name, parts: [part] });
  }
  return steps;
}

const nameOf = (event) => (event.type === "TimerCreated" ? "timer" : event.name);

// The step whose last attempt failed and is repeated by this one. Equal inputs are preferred.
function failedBefore(steps, event) {
  const candidates = steps.filter(({ kind, name, parts }) => kind === "activity" && name === event.name
    && parts.at(-1).state === "bad" && parts.at(-1).event.attempt === event.attempt - 1);
  const input = JSON.stringify(event.input);
  return candidates.find(({ parts }) => JSON.stringify(parts.at(-1).event.input) === input) ?? candidates[0];
}

function retry(steps, parts, step, event) {
  const failed = step.parts.at(-1);
  // The timer of the delay belongs to the step, not to a row of its own.
  const delay = steps.find(({ kind, parts: [part] }) => kind === "timer" && part.seq > failed.end.seq && part.end
    && part.end.seq < event.seq);
  if (delay) steps.splice(steps.indexOf(delay), 1);
  const from = Date.parse(event.timestamp);
  step.parts.push({ from: failed.to, to: from, state: "delay", seq: null });
  const part = { from, to: null, state: "open", seq: event.seq, event };
  step.parts.push(part);
  parts.set(event.seq, [step, part]);
}

export const attemptsOf = (step) => step.parts.filter((part) => part.state !== "delay").length;
