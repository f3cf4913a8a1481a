// Strokes that pictures share: the frame of time, hatching, staircases. They draw on a canvas or on
// an `SvgPen` alike.
import { BELOW } from "./stage.js";
import { ticks } from "./axis.js";
import { palette } from "./palette.js";

export const FONT = "12px system-ui, 'DejaVu Sans', sans-serif";

/**
 * A text as far as it fits, with an ellipsis where it was shortened.
 * @param {any} g with the font set @param {string} text @param {number} width in pixels
 */
export function fitted(g, text, width) {
  if (g.measureText(text).width <= width) return text;
  let kept = text.length - 1;
  while (kept > 1 && g.measureText(`${text.slice(0, kept)}…`).width > width) kept -= 1;
  return `${text.slice(0, kept)}…`;
}

/** A text without its middle, as wide as there is room: both ends tell names apart. @param {any} g @param {string} text @param {number} width */
export function fittedMiddle(g, text, width) {
  for (let kept = text.length; kept > 2; kept -= 1) {
    const shown = kept === text.length ? text : `${text.slice(0, Math.ceil(kept / 2))}…${text.slice(text.length - Math.floor(kept / 2))}`;
    if (g.measureText(shown).width <= width) return shown;
  }
  return `${text.slice(0, 1)}…${text.slice(-1)}`;
}

/**
 * Vertical lines at round times, and what they are, below.
 * @param {any} g
 * @param {import("./stage.js").Stage} stage
 * @param {import("../core/times.js").Times} times
 */
export function drawTimes(g, stage, times) {
  const { width, height, span, left } = stage;
  const colours = palette();
  const bottom = height - BELOW;
  g.font = FONT;
  g.textAlign = "center";
  g.textBaseline = "middle";
  g.lineWidth = 1;
  let end = -Infinity; // of the last text, and whether it was moved to stay inside
  let wasMoved = false;
  for (const tick of ticks(span.from, span.to, width - left, times)) {
    const x = Math.round(stage.x(tick.at)) + 0.5;
    if (x < left - 1) continue;
    g.strokeStyle = tick.day ? colours.line : colours.grid;
    g.beginPath();
    g.moveTo(x, 0);
    g.lineTo(x, bottom);
    g.stroke();
    g.fillStyle = tick.day ? colours.ink : colours.faint;
    const half = tick.day ? 32 : 18;
    const middle = Math.min(Math.max(x, left + half), width - half);
    const isMoved = middle !== x;
    if ((isMoved || wasMoved) && middle - half < end) continue;
    g.fillText(tick.text, middle, height - BELOW / 2);
    [end, wasMoved] = [middle + half, isMoved];
  }
}

/** The present, where it is shown. @param {any} g @param {import("./stage.js").Stage} stage @param {number} now @param {boolean} [named] */
export function drawNow(g, stage, now, named = false) {
  if (now < stage.span.from || now > stage.span.to) return;
  const x = Math.round(stage.x(now)) + 0.5;
  const bottom = stage.height - BELOW;
  const { panel } = palette();
  g.strokeStyle = palette().now;
  g.lineWidth = 1.5;
  g.beginPath();
  g.moveTo(x, 0);
  g.lineTo(x, bottom);
  g.stroke();
  if (!named) return;
  const middle = Math.min(Math.max(x, stage.left + 18), stage.width - 18);
  g.fillStyle = palette().now;
  g.fillRect(middle - 17, 0, 34, 15);
  g.fillStyle = panel;
  g.font = FONT;
  g.textAlign = "center";
  g.textBaseline = "middle";
  g.fillText("now", middle, 8);
}

/**
 * Diagonal lines inside the path that is begun; the path is used up.
 * @param {any} g
 * @param {{left: number, top: number, right: number, bottom: number}} box around the path
 * @param {string} colour
 * @param {number} [apart]
 */
export function hatch(g, { left, top, right, bottom }, colour, apart = 6) {
  if (right <= left || bottom <= top) return;
  g.save();
  g.clip();
  g.strokeStyle = colour;
  g.lineWidth = 1;
  g.beginPath();
  const high = bottom - top;
  for (let x = Math.floor((left - high) / apart) * apart; x < right; x += apart) {
    g.moveTo(x, bottom);
    g.lineTo(x + high, top);
  }
  g.stroke();
  g.restore();
}

/** A hatched rectangle. @param {any} g @param {number} x @param {number} y @param {number} width @param {number} height @param {string} colour @param {number} [apart] */
export function hatchRect(g, x, y, width, height, colour, apart) {
  g.beginPath();
  g.rect(x, y, width, height);
  hatch(g, { left: x, top: y, right: x + width, bottom: y + height }, colour, apart);
}

/**
 * Goes along a staircase: one point a change, only those in view.
 * @param {any} g
 * @param {{from: number, step: number, values: ArrayLike<number>}} series
 * @param {import("./stage.js").Stage} stage
 * @param {(value: number) => number} y
 * @param {number|null} floor where the area is closed; null: a line
 */
export function staircase(g, { from, step, values }, stage, y, floor) {
  const first = Math.max(0, Math.floor((stage.span.from - from) / step));
  const last = Math.min(values.length, Math.ceil((stage.span.to - from) / step) + 1);
  if (last <= first) return;
  const scale = (stage.width - stage.left) / stage.span.length;
  const x = (/** @type {number} */ n) => stage.left + (from + n * step - stage.span.from) * scale;
  let before = values[first];
  g.moveTo(x(first), floor ?? y(before));
  if (floor !== null) g.lineTo(x(first), y(before));
  for (let n = first + 1; n < last; n += 1) {
    const value = values[n];
    if (value === before) continue;
    g.lineTo(x(n), y(before));
    g.lineTo(x(n), y(value));
    before = value;
  }
  g.lineTo(x(last), y(before));
  if (floor === null) return;
  g.lineTo(x(last), floor);
  g.closePath();
}
