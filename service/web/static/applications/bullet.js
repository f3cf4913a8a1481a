// Wanted, grown above it, assigned, running and covered as bars on one scale, with the counts in words.
import { make } from "../core/dom.js";
import { count } from "../core/numbers.js";

/** @typedef {{wanted: number, grown?: number, assigned: number, running: number, covered: number}} Counts */

const KINDS = /** @type {const} */ (["assigned", "running", "covered"]);
export const COUNTS = /** @type {const} */ (["wanted", ...KINDS]);

/** How many are to run: "3", "3 + 2 grown". @param {Counts} one */
export const askedWords = (one) => `${count(one.wanted)}${one.grown ? ` + ${count(one.grown)} grown` : ""}`;

/** How many are to run. @param {Counts} one */
export const askedOf = (one) => one.wanted + (one.grown ?? 0);

/** @param {Counts} one */
export const wordsOf = (one) =>
  `${count(one.wanted)} wanted${one.grown ? ` + ${count(one.grown)} grown` : ""}, ${count(one.assigned)} assigned, ${count(one.running)} running, ${count(one.covered)} covered`;

/** @param {any[]} components */
export function sumOf(components) {
  const sum = { wanted: 0, grown: 0, assigned: 0, running: 0, covered: 0 };
  for (const one of components) {
    sum.grown += one.grown ?? 0;
    for (const kind of COUNTS) sum[kind] += one[kind];
  }
  return sum;
}

/** A length on a scale. @param {number} part @param {number} whole */
const shareOf = (part, whole) => `${whole ? Math.min(100, (100 * part) / whole) : 0}%`;

/** One bar: what is to run is its frame; a line parts what is wanted from what has grown. @param {Counts} one */
export function bullet(one) {
  const whole = askedOf(one);
  const parts = KINDS.map((kind) => {
    const part = make("i", { class: kind });
    part.style.width = shareOf(one[kind], whole);
    return part;
  });
  if (one.grown) {
    const grown = make("i", { class: "grown" });
    grown.style.left = shareOf(one.wanted, whole);
    parts.push(grown);
  }
  return make("span", { class: "bullet", role: "img", "aria-label": wordsOf(one), title: wordsOf(one) }, ...parts);
}

/**
 * Four bars beneath each other, and what has grown as a fifth, on the scale of the most that is to run.
 * @param {Counts} one @param {number} most
 */
export function fourBars(one, most) {
  const row = (/** @type {string} */ kind, /** @type {number} */ value, begin = 0) => {
    const bar = make("i", { class: `bar-of ${kind}` });
    bar.style.width = shareOf(value, most);
    bar.style.marginLeft = shareOf(begin, most);
    return make("div", { class: "four" }, make("span", { class: "faint", text: kind }), make("span", { class: "rail" }, bar), make("b", { text: count(value) }));
  };
  const [wanted, ...others] = COUNTS.map((kind) => row(kind, one[kind]));
  const grown = one.grown ? [row("grown", one.grown, one.wanted)] : [];
  return make("div", { role: "img", "aria-label": wordsOf(one) }, wanted, ...grown, ...others);
}
