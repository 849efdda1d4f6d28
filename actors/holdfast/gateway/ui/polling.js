// Polls the server: paused while the page is hidden, less often when answers are slow, backing off while they fail.

const EVERY_MS = 2000;
const AT_MOST_MS = 15000;
// At most one part in this many of the time is spent waiting for answers.
const SHARE = 10;

export class Follower {
  #look;
  #timer;
  #looking = false;
  #again = false;
  #failures = 0;
  #stopped = false;

  // `look` fetches and draws; it resolves to whether all requests succeeded.
  constructor(look) {
    this.#look = look;
    document.addEventListener("visibilitychange", () => document.hidden ? clearTimeout(this.#timer) : this.now());
    addEventListener("online", () => this.now());
  }

  // Polls at once; if a poll is in progress, once more after it.
  async now() {
    if (this.#stopped) return;
    clearTimeout(this.#timer);
    if (this.#looking) {
      this.#again = true;
      return;
    }
    this.#looking = true;
    const start = performance.now();
    let answered;
    do {
      this.#again = false;
      answered = await this.#look();
    } while (this.#again && !this.#stopped);
    this.#looking = false;
    this.#failures = answered ? 0 : this.#failures + 1;
    const pause = Math.max(EVERY_MS * 2 ** Math.min(this.#failures, 2), SHARE * (performance.now() - start));
    if (!document.hidden && !this.#stopped) this.#timer = setTimeout(() => this.now(), Math.min(pause, AT_MOST_MS));
  }

  stop() {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }

  resume() {
    this.#stopped = false;
    return this.now();
  }
}
