// Value and bound of a search over time: the scales and lines of their picture, without drawing it.

/**
 * @typedef {[number, number, number, string]} Point elapsed seconds, value, bound, source
 *
 * @typedef {object} TracePicture
 * @property {string} value the line of the value, as the `d` of a path
 * @property {string|null} bound the same of the bound; null where there is none
 * @property {{y: number, amount: number}[]} levels lines across
 * @property {{x: number, seconds: number}[]} ticks
 */

/** A bound that says nothing is left out. @param {number|null|undefined} bound */
const isBound = (bound) => typeof bound === "number" && Number.isFinite(bound);

/**
 * The least and the most that is drawn, with room around it.
 * @param {Point[]} trace @returns {[number, number]}
 */
export function rangeOf(trace) {
  const all = trace.flatMap(([, value, bound]) => (isBound(bound) ? [value, bound] : [value]));
  const [least, most] = [Math.min(...all), Math.max(...all)];
  const room = (most - least) * 0.08 || Math.abs(most) * 0.02 || 1;
  return [Math.max(0, least - room), most + room];
}

/**
 * The lines of a trace in a box. Both hold until the next point; at the end until now, or to the
 * right end of one that is over.
 * @param {Point[]} trace
 * @param {number} seconds from the start to the right end
 * @param {number} elapsed until now
 * @param {{width: number, height: number}} box
 * @returns {TracePicture}
 */
export function tracePicture(trace, seconds, elapsed, { width, height }) {
  const [least, most] = rangeOf(trace);
  const until = Math.max(elapsed, trace.at(-1)?.[0] ?? 0);
  const last = Math.max(seconds, until * 1.04, 1e-6);
  /** @param {number} at */
  const x = (at) => (Math.min(at, last) / last) * width;
  /** @param {number} amount */
  const y = (amount) => height - ((amount - least) / (most - least)) * height;
  /** @param {1|2} place */
  const line = (place) => {
    const points = trace.filter((point) => isBound(point[place]));
    let path = "";
    for (const point of points) {
      // What is the best at first was so from the start: it is the Plan as it stands.
      const [here, amount] = [x(path || place === 2 ? point[0] : 0).toFixed(1), y(point[place]).toFixed(1)];
      path += path ? `H${here}V${amount}` : `M${here} ${amount}`;
    }
    return path ? `${path}H${x(seconds > until ? until : last).toFixed(1)}` : null;
  };
  return {
    value: line(1) ?? "",
    bound: line(2),
    levels: between(least, most, 5).map((amount) => ({ y: y(amount), amount })),
    ticks: between(0, last * 0.96, 6).map((at) => ({ x: x(at), seconds: at })),
  };
}

/**
 * Round numbers from a least to a most.
 * @param {number} least @param {number} most @param {number} parts about so many
 */
export function between(least, most, parts) {
  const rough = (most - least) / parts || 1;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((n) => n * size).find((n) => n >= rough * 0.999) ?? 10 * size;
  const found = [];
  for (let at = Math.ceil(least / step) * step; at <= most + step * 1e-9; at += step) found.push(at);
  return found;
}
