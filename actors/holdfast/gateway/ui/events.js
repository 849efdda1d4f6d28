// The server's events: which of the watched things have changed. A stream by fetch, as EventSource cannot send a token.
import { headers } from "./api.js";

const RETRY_MS = 2000;
// After a refusal, such as one of too many streams.
const REFUSED_MS = 30000;
// Of one stream.
const MOST_TOPICS = 8;

export class Events {
  #onChanged;
  #onEnded;
  #topics = [];
  #abort = null;
  #timer;
  // Whether a stream is open, so that nothing has to be polled.
  open = false;

  constructor(onChanged, onEnded) {
    this.#onChanged = onChanged;
    this.#onEnded = onEnded;
  }

  watch(topics) {
    const wanted = [...new Set(topics)].sort().slice(0, MOST_TOPICS);
    if (wanted.join() === this.#topics.join()) return;
    this.#topics = wanted;
    this.#start();
  }

  stop() {
    this.#topics = [];
    this.#end();
  }

  #end() {
    clearTimeout(this.#timer);
    this.#abort?.abort();
    this.#abort = null;
    this.open = false;
  }

  #start() {
    this.#end();
    if (this.#topics.length === 0) return;
    const abort = new AbortController();
    this.#abort = abort;
    this.#read(abort.signal).catch(() => RETRY_MS).then((pause) => {
      if (abort.signal.aborted) return;
      const ended = this.open;
      this.open = false;
      this.#timer = setTimeout(() => this.#start(), pause);
      if (ended) this.#onEnded();
    });
  }

  // Reads until the stream ends. Returns how long to wait before the next one.
  async #read(signal) {
    const query = new URLSearchParams(this.#topics.map((topic) => ["topic", topic]));
    const answer = await fetch(`events?${query}`, { headers: headers(), signal, cache: "no-store" });
    if (!answer.ok) return REFUSED_MS;
    this.open = true;
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return RETRY_MS;
      text += value;
      const events = text.split("\n\n");
      text = events.pop();
      for (const event of events) {
        const data = event.split("\n").find((line) => line.startsWith("data: "));
        if (data) this.#onChanged(new Set(JSON.parse(data.slice(6))));
      }
    }
  }
}
