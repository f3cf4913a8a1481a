// Ticks of a time axis: whole hours and days of the zone that times are shown in.

const STEPS = [1, 5, 10, 15, 30, 60, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200,
  86_400, 172_800, 604_800, 1_209_600, 2_592_000];

/**
 * Instants to draw a line at, and what to write there.
 * @param {number} from seconds from the origin
 * @param {number} to
 * @param {number} width in pixels
 * @param {import("../core/times.js").Times} times
 * @returns {{at: number, text: string, day: boolean}[]}
 */
export function ticks(from, to, width, times) {
  const least = ((to - from) * 72) / Math.max(width, 72);
  const every = STEPS.find((step) => step >= least) ?? /** @type {number} */ (STEPS.at(-1));
  const offset = times.originMs / 1000 + times.offset(from);
  const found = [];
  for (let wall = Math.ceil((from + offset) / every) * every; wall <= to + offset; wall += every) {
    let at = wall - offset;
    // Past a change of the clocks the wall shows another time: the tick moves to the whole hour.
    if (every >= 3600) at += times.offset(from) - times.offset(at);
    const day = every >= 86_400 || wall % 86_400 === 0;
    found.push({ at, text: day ? times.day(at) : times.clock(at), day });
  }
  return found;
}

/**
 * Round amounts from 0 to the most.
 * @param {number} most @param {number} parts at least so many
 */
export function levels(most, parts = 4) {
  const rough = most / parts;
  const size = 10 ** Math.floor(Math.log10(Math.max(rough, 1e-9)));
  const step = [1, 2, 2.5, 5, 10].map((n) => n * size).filter((n) => n <= rough).at(-1) ?? size;
  const found = [];
  for (let at = 0; at <= most * (1 + 1e-9); at += step) found.push(at);
  return found;
}
