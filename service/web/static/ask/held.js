// What a reservation holds of a resource over time: amounts in the unit of a skyline.

/** MiB in a unit of memory; cores in one of cpu. @type {Record<string, number>} */
const UNITS = { m: 0.001, KiB: 1 / 1024, MiB: 1, GiB: 1024, TiB: 1 << 20 };

/**
 * An amount of a bundle as the API writes it ("500m", "2 GiB", 3) as a number of the picture's unit.
 * @param {number|string|undefined} raw
 */
export function amountOf(raw) {
  if (typeof raw === "number") return raw;
  const [, digits, unit] = /^([\d.]+)\s*([A-Za-z]*)/.exec(raw ?? "0") ?? [];
  return Number(digits ?? 0) * (UNITS[unit] ?? 1);
}

/**
 * Stretches of time with what is held in each, in order; none overlap, and none holds nothing.
 * @param {{bundle: Record<string, number|string>, allocation: [number, number, number][]}[]} atoms
 * @param {string} resource
 * @returns {{from: number, to: number, amount: number}[]}
 */
export function heldOf(atoms, resource) {
  /** @type {Map<number, number>} */
  const changes = new Map();
  for (const { bundle, allocation } of atoms) {
    const each = amountOf(bundle[resource]);
    if (!each) continue;
    for (const [start, end, bundles] of allocation) {
      changes.set(start, (changes.get(start) ?? 0) + each * bundles);
      changes.set(end, (changes.get(end) ?? 0) - each * bundles);
    }
  }
  const instants = [...changes.keys()].sort((a, b) => a - b);
  const found = [];
  let held = 0;
  for (let n = 0; n + 1 < instants.length; n += 1) {
    held += /** @type {number} */ (changes.get(instants[n]));
    if (held > 1e-9) found.push({ from: instants[n], to: instants[n + 1], amount: held });
  }
  return found;
}

/** The resources that atoms take. @param {{bundle: Record<string, unknown>}[]} atoms */
export const resourcesOf = (atoms) => [...new Set(atoms.flatMap((one) => Object.keys(one.bundle)))];

/**
 * Two parts of time, the first lengthened by a share at both ends.
 * @param {number} from @param {number} to @param {number} [share]
 * @returns {[number, number]}
 */
export function around(from, to, share = 0.25) {
  const room = Math.max(900, (to - from) * share);
  return [from - room, to + room];
}
