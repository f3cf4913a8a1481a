// What a request would hold of one resource over time, for a skyline's ghost.

const SIZES = /** @type {Record<string, number>} */ ({ KiB: 1 / 1024, MiB: 1, GiB: 1024, TiB: 1 << 20, m: 1e-3 });

/** An amount of a bundle as a number of the skyline's unit. @param {number|string|undefined} value */
export function numberOf(value) {
  if (value === undefined) return 0;
  if (typeof value === "number") return value;
  const [, digits, unit] = /^([\d.]+)\s*(\w*)$/.exec(value) ?? [];
  return Number(digits) * (SIZES[unit] ?? 1);
}

/**
 * @param {{atoms: {bundle: Record<string, any>, allocation: [number, number, number][]}[]}} reservation
 * @param {string} resource
 * @returns {{from: number, to: number, amount: number}[]} sorted, not overlapping
 */
export function ghostOf(reservation, resource) {
  /** @type {Map<number, number>} */
  const changes = new Map();
  const add = (/** @type {number} */ at, /** @type {number} */ by) => changes.set(at, (changes.get(at) ?? 0) + by);
  for (const atom of reservation.atoms) {
    const size = numberOf(atom.bundle[resource]);
    for (const [start, end, bundles] of atom.allocation) {
      add(start, size * bundles);
      add(end, -size * bundles);
    }
  }
  const found = /** @type {{from: number, to: number, amount: number}[]} */ ([]);
  let held = 0;
  let from = 0;
  for (const at of [...changes.keys()].sort((a, b) => a - b)) {
    const last = found.at(-1);
    if (last?.to === from && Math.abs(last.amount - held) < 1e-9) last.to = at;
    else if (held > 1e-9) found.push({ from, to: at, amount: held });
    held += /** @type {number} */ (changes.get(at));
    from = at;
  }
  return found;
}
