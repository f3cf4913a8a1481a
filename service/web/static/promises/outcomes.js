// Outcomes of promises, which add up to what was promised; and the error budget.

/** From good to bad. */
export const OUTCOMES = /** @type {const} */ (["kept", "unused", "degraded", "failed"]);

/**
 * @typedef {object} Counts
 * @property {number} promised
 * @property {number} kept
 * @property {number} unused
 * @property {number} late
 * @property {number} degraded
 * @property {number} failed
 * @property {number} below
 * @property {number} below_s
 * @property {number} moved
 * @property {number} cancelled
 */

/** @param {Counts[]} all @returns {Counts} */
export function sumOf(all) {
  const sum = { promised: 0, kept: 0, unused: 0, late: 0, degraded: 0, failed: 0, below: 0, below_s: 0, moved: 0, cancelled: 0 };
  for (const one of all) for (const name of /** @type {(keyof Counts)[]} */ (Object.keys(sum))) sum[name] += one[name];
  return sum;
}

/**
 * The error budget of an aim: how many may be broken, how many are, and the rest.
 * @param {Counts} one
 * @param {number} aim per cent that are to be kept
 */
export function budgetOf(one, aim) {
  const allowed = one.promised * (1 - aim / 100);
  const broken = one.promised - one.kept;
  return { allowed, broken, left: allowed - broken, used: allowed ? broken / allowed : broken ? Infinity : 0 };
}
