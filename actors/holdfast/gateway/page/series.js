// Depth over time, for as long as the page is open and in bounded room.

const ROOM = 900;
// Lists and details are asked for together; one of the two is enough.
const CLOSEST_MS = 500;

class Series {
  points = [];

  add(time, waiting, locked) {
    const last = this.points.at(-1);
    if (last && time - last.time < CLOSEST_MS) this.points.pop();
    this.points.push({ time, waiting, locked });
    if (this.points.length > ROOM) this.#thin();
  }

  // Nobody looked for a while: a line across would be made up.
  interrupt() {
    const last = this.points.at(-1);
    if (last) last.end = true;
  }

  since(time) {
    const first = this.points.findIndex((point) => point.time >= time);
    if (first < 0) return [];
    // One before, so that the line comes from the edge.
    return this.points.slice(Math.max(0, first - 1));
  }

  // The older half keeps the higher one of every two.
  #thin() {
    const half = ROOM / 2;
    const older = [];
    for (let place = 0; place < half; place += 2) {
      const [one, other] = this.points.slice(place, place + 2);
      const higher = one.waiting >= other.waiting ? one : other;
      older.push({ ...higher, end: one.end || other.end });
    }
    this.points.splice(0, half, ...older);
  }
}

const all = new Map();

export function seriesOf(queue) {
  if (!all.has(queue)) all.set(queue, new Series());
  return all.get(queue);
}

export function interrupt() {
  for (const series of all.values()) series.interrupt();
}
