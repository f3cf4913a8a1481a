// The diff of an optimisation as rows of a picture and of a table: who, what became of it, when.

/**
 * @typedef {object} Change an entry of `result.diff.requests`
 * @property {string} id
 * @property {string} fate
 * @property {string} tenant
 * @property {string|null} before state, or code of the refusal
 * @property {string|null} after
 * @property {[number|null, number|null]} start
 * @property {[number|null, number|null]} end
 * @property {[[number, number, number][], [number, number, number][]]} rows
 * @property {number} moved
 * @property {number} relocated
 */

/** Fates in the order of how much they matter, and what they are called. @type {[string, string][]} */
export const FATES = [
  ["gained", "gained"], ["restored", "restored"], ["lost", "lost"], ["degraded", "degraded"],
  ["moved", "moved"], ["relocated", "to other machines"], ["changed", "changed"],
  ["added", "added"], ["gone", "gone"],
];

const ORDER = new Map(FATES.map(([fate], place) => [fate, place]));

/** The fates that occur, each with its count. @param {Change[]} changes @returns {{fate: string, word: string, count: number}[]} */
export function countsOf(changes) {
  return FATES.map(([fate, word]) => ({ fate, word, count: changes.filter((one) => one.fate === fate).length }))
    .filter((one) => one.count);
}

/**
 * The changes to show: of one fate or all, whose id or tenant holds a text, by fate and begin.
 * @param {Change[]} changes
 * @param {{fate?: string, find?: string}} [filter]
 */
export function chosen(changes, { fate = "", find = "" } = {}) {
  const sought = find.trim().toLowerCase();
  return changes
    .filter((one) => !fate || one.fate === fate)
    .filter((one) => !sought || one.id.toLowerCase().includes(sought) || (one.tenant ?? "").toLowerCase().includes(sought))
    .sort((a, b) => (ORDER.get(a.fate) ?? 99) - (ORDER.get(b.fate) ?? 99) || beginOf(a) - beginOf(b) || (a.id < b.id ? -1 : 1));
}

/** @param {Change} one */
const beginOf = (one) => one.start[1] ?? one.start[0] ?? Infinity;

/**
 * The time that changes cover, with a little room at each end; null where nothing is held.
 * @param {Change[]} changes @returns {[number, number]|null}
 */
export function coverOf(changes) {
  const begins = changes.flatMap((one) => one.start).filter((at) => at !== null);
  const ends = changes.flatMap((one) => one.end).filter((at) => at !== null);
  if (!begins.length) return null;
  const [from, to] = [Math.min(...begins), Math.max(...ends)];
  const room = Math.max(60, (to - from) * 0.03);
  return [from - room, to + room];
}

/**
 * A change in a sentence: "moved: 16:23 – 20:26 before, 16:32 – 20:37 after".
 * @param {Change} one
 * @param {import("../core/times.js").Times} times
 */
export function wordsOf(one, times) {
  const [was, is] = [0, 1].map((side) => {
    const [start, end] = [one.start[side], one.end[side]];
    return start === null || end === null ? null : times.span(start, end);
  });
  const before = was ?? (one.before ? `no place (${one.before})` : "not there");
  const after = is ?? (one.after ? `no place (${one.after})` : "not there");
  const same = one.fate === "relocated" ? "the same times on other machines" : "other amounts within the same times";
  return `${before} → ${was && was === is ? same : after}`;
}

/**
 * The bars of one side of a change: [start, end, height between 0 and 1].
 * @param {Change} one
 * @param {0|1} side before or after
 * @returns {[number, number, number][]}
 */
export function barsOf(one, side) {
  const rows = one.rows ?? [0, 1].map((which) => wholeOf(one, which)); // of an older version: from begin to end
  const most = Math.max(...rows.flat().map(([, , bundles]) => bundles), 1);
  return rows[side].map(([start, end, bundles]) => [start, end, Math.max(0.2, bundles / most)]);
}

/** @param {Change} one @param {number} side @returns {[number, number, number][]} */
function wholeOf(one, side) {
  const [start, end] = [one.start[side], one.end[side]];
  return start === null || end === null ? [] : [[start, end, 1]];
}

/** The ids that a 409 names, each with why it does not fit. @param {{pointer: string, message: string}[]} errors */
export function conflictsOf(errors) {
  return errors.map((one) => {
    const id = one.pointer?.split("/").at(-1) ?? "";
    const start = `${id}: `;
    return { id, detail: one.message.startsWith(start) ? one.message.slice(start.length) : one.message };
  });
}
