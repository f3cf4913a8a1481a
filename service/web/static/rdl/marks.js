// A text cut into pieces: each with the kind of its token and the marks that lie over it.

/**
 * @typedef {object} Mark
 * @property {[number, number]} span in characters; of no length: the place itself
 * @property {string} kind a class of the pieces it lies over
 *
 * @typedef {object} Piece
 * @property {string} text
 * @property {string[]} kinds
 */

/**
 * The pieces of a text; joined they are the text.
 * @param {string} text
 * @param {import("./tokens.js").Token[]} tokens in order
 * @param {Mark[]} marks
 * @returns {Piece[]}
 */
export function piecesOf(text, tokens, marks) {
  const shown = marks.map((mark) => ({ ...mark, span: visible(mark.span, text.length) }));
  const cuts = new Set([0, text.length]);
  for (const { start, end } of tokens) cuts.add(start).add(end);
  for (const { span } of shown) cuts.add(span[0]).add(span[1]);
  const places = [...cuts].sort((a, b) => a - b);
  const found = [];
  let token = 0;
  for (let n = 0; n + 1 < places.length; n += 1) {
    const [start, end] = [places[n], places[n + 1]];
    while (token < tokens.length && tokens[token].end <= start) token += 1;
    const kinds = shown.filter(({ span }) => span[0] <= start && end <= span[1]).map(({ kind }) => kind);
    if (token < tokens.length && tokens[token].start <= start) kinds.unshift(tokens[token].kind);
    found.push({ text: text.slice(start, end), kinds: [...new Set(kinds)] });
  }
  return found;
}

/**
 * A span inside the text, of at least one character where there is one.
 * @param {[number, number]} span @param {number} length
 * @returns {[number, number]}
 */
function visible([from, to], length) {
  const start = Math.max(0, Math.min(from, length));
  const end = Math.max(start, Math.min(to, length));
  if (end > start) return [start, end];
  return start < length ? [start, start + 1] : [Math.max(0, length - 1), length];
}

/**
 * Spans as the server counts them, in characters, as places of a string, which counts those beyond
 * the basic plane twice.
 * @template {{span?: [number, number]|null}} T
 * @param {string} text
 * @param {T[]} parts
 * @returns {T[]}
 */
export function placedIn(text, parts) {
  const characters = [...text];
  if (characters.length === text.length) return parts;
  const places = [0];
  for (const one of characters) places.push(places[places.length - 1] + one.length);
  /** @param {number} at */
  const place = (at) => places[at] ?? text.length;
  return parts.map((one) => (one.span ? { ...one, span: [place(one.span[0]), place(one.span[1])] } : one));
}

/**
 * Where a span stands after the text was changed in one place; null where the change cut into it.
 * @param {[number, number]} span of the text before
 * @param {string} before
 * @param {string} after
 * @returns {[number, number]|null}
 */
export function moved(span, before, after) {
  let same = 0;
  while (same < before.length && same < after.length && before[same] === after[same]) same += 1;
  let tail = 0;
  const most = Math.min(before.length, after.length) - same;
  while (tail < most && before[before.length - 1 - tail] === after[after.length - 1 - tail]) tail += 1;
  const changedTo = before.length - tail;
  if (span[1] <= same) return span;
  const by = after.length - before.length;
  return span[0] >= changedTo ? [span[0] + by, span[1] + by] : null;
}

/**
 * The problem to go to next: the first that begins behind a place, else the first of all.
 * @template {{span: [number, number]|null}} T
 * @param {T[]} problems
 * @param {number} place
 * @returns {T|null}
 */
export function nextAfter(problems, place) {
  const placed = problems.filter((one) => one.span)
    .sort((a, b) => /** @type {any} */ (a.span)[0] - /** @type {any} */ (b.span)[0]);
  return placed.find((one) => /** @type {any} */ (one.span)[0] > place) ?? placed[0] ?? null;
}

/** What a fix says to write instead ("did you mean 'atom'?"); null where that is not one word. @param {string|null} fix */
export function replacementOf(fix) {
  return /^did you mean '([^']+)'\?$/.exec(fix ?? "")?.[1] ?? null;
}
