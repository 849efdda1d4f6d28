// Depth over time while the page is open, in bounded memory: recent minutes point by point, older points merged into
// stretches of equal length, which doubles as the page stays open.

const RECENT = 300;
const OLDER = 600;
// The list and the details of a queue arrive together; one of the two points is enough.
const CLOSEST_MS = 500;

class Series {
  #recent = [];
  #older = [];
  #stretch = 1;

  get points() {
    return [...this.#older, ...this.#recent];
  }

  add(time, waiting, locked) {
    const last = this.#recent.at(-1);
    if (last && time - last.time < CLOSEST_MS) this.#recent.pop();
    this.#recent.push({ time, waiting, locked, looks: 1 });
    if (this.#recent.length > RECENT) this.#age(this.#recent.shift());
  }

  // Marks a gap without data, over which no line is drawn.
  interrupt() {
    const last = this.#recent.at(-1);
    if (last) last.end = true;
  }

  since(time) {
    const points = this.points;
    const first = points.findIndex((point) => point.time >= time);
    // Includes one earlier point, so that the line starts at the edge.
    return first < 0 ? [] : points.slice(Math.max(0, first - 1));
  }

  #age(point) {
    const last = this.#older.at(-1);
    if (last && last.looks < this.#stretch) this.#older[this.#older.length - 1] = merged(last, point);
    else this.#older.push(point);
    if (this.#older.length <= OLDER) return;
    this.#stretch *= 2;
    const all = this.#older;
    this.#older = [];
    for (let place = 0; place < all.length; place += 2) {
      this.#older.push(place + 1 < all.length ? merged(all[place], all[place + 1]) : all[place]);
    }
  }
}

// Keeps the higher point, so that peaks stay visible.
function merged(one, other) {
  const higher = one.waiting >= other.waiting ? one : other;
  return { ...higher, looks: one.looks + other.looks, end: one.end || other.end };
}

const all = new Map();

export function seriesOf(queue) {
  if (!all.has(queue)) all.set(queue, new Series());
  return all.get(queue);
}

export function interrupt() {
  for (const series of all.values()) series.interrupt();
}
