// Wanted, assigned, running and covered as bars on one scale, with the counts in words.
import { make } from "../core/dom.js";
import { count } from "../core/numbers.js";

/** @typedef {{wanted: number, assigned: number, running: number, covered: number}} Counts */

const KINDS = /** @type {const} */ (["assigned", "running", "covered"]);
export const COUNTS = /** @type {const} */ (["wanted", ...KINDS]);

/** @param {Counts} one */
export const wordsOf = (one) =>
  `${count(one.wanted)} wanted, ${count(one.assigned)} assigned, ${count(one.running)} running, ${count(one.covered)} covered`;

/** @param {any[]} components @returns {Counts} */
export function sumOf(components) {
  const sum = { wanted: 0, assigned: 0, running: 0, covered: 0 };
  for (const one of components) {
    for (const kind of COUNTS) sum[kind] += one[kind];
  }
  return sum;
}

/** One bar: what is wanted is its frame. @param {Counts} one */
export function bullet(one) {
  const parts = KINDS.map((kind) => {
    const part = make("i", { class: kind });
    part.style.width = `${one.wanted ? Math.min(100, (100 * one[kind]) / one.wanted) : 0}%`;
    return part;
  });
  return make("span", { class: "bullet", role: "img", "aria-label": wordsOf(one), title: wordsOf(one) }, ...parts);
}

/** Four bars beneath each other, on the scale of the most that is wanted. @param {Counts} one @param {number} most */
export function fourBars(one, most) {
  const rows = COUNTS.map((kind) => {
    const bar = make("i", { class: `bar-of ${kind}` });
    bar.style.width = `${most ? (100 * one[kind]) / most : 0}%`;
    return make("div", { class: "four" }, make("span", { class: "faint", text: kind }), make("span", { class: "rail" }, bar), make("b", { text: count(one[kind]) }));
  });
  return make("div", { role: "img", "aria-label": wordsOf(one) }, ...rows);
}
