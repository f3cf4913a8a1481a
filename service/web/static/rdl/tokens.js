// RDL text as tokens, for colouring: nothing is judged here, the server does that.

/**
 * @typedef {object} Token
 * @property {number} start in characters
 * @property {number} end
 * @property {Kind} kind
 * @typedef {"comment"|"bundle"|"string"|"operator"|"argument"|"name"|"number"|"time"|"constant"|"word"|"sign"} Kind
 */

const WORD = String.raw`[A-Za-z_](?:[\w./]|-(?!>))*`;

/** In this order; of each the first that fits. @type {[Kind, string][]} */
const RULES = [
  ["comment", String.raw`#[^\n]*`],
  ["bundle", String.raw`<[^<>();]*>`],
  ["string", String.raw`"(?:[^"\\\n]|\\.)*"`],
  ["operator", String.raw`\b(?:atom|any|all|order|graph|together|window|deadline|every|void)(?=\s*\()`],
  ["argument", String.raw`\b(?:bundle|min|max|lease|work|multiple|on|spread|by|within|values|handover|credit|tasks|each|prefer|gap|of|start|end|zone|period|times|until|anchor|same_offset|days|except|holidays|dates|day)(?=\s*=)`],
  ["name", String.raw`${WORD}(?=\s*[=:])`],
  ["time", String.raw`\d{4}-\d\d-\d\d[0-9A-Za-z:.+\-]*|\d\d?:\d[\d:.]*`],
  ["number", String.raw`\d+(?:\.\d+)?(?:[A-Za-z_]+(?:\d+(?:\.\d+)?)?)*`],
  ["constant", String.raw`\b(?:true|false|yes|no)\b`],
  ["word", WORD],
  ["sign", String.raw`->|\.\.|[(),;:=+[\]]`],
];

const ANY = new RegExp(RULES.map(([, rule]) => `(${rule})`).join("|"), "g");

/**
 * The tokens of a text in order; blanks and what no rule fits are left out.
 * @param {string} text
 * @returns {Token[]}
 */
export function tokensOf(text) {
  const found = [];
  for (const match of text.matchAll(ANY)) {
    const rule = match.slice(1).findIndex((group) => group !== undefined);
    found.push({ start: match.index, end: match.index + match[0].length, kind: RULES[rule][0] });
  }
  return found;
}
