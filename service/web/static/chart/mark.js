// What a refused request lacked, drawn on the skyline: its window, the room, and what it needed.
import { palette } from "./palette.js";
import { FONT, hatchRect } from "./strokes.js";

/**
 * @typedef {object} Mark
 * @property {[number, number]|null} window of the request
 * @property {number} at the scarcest instant
 * @property {number|null} needed in the unit of the picture, drawn above what is held; null: unknown
 * @property {[number, number]|null} room for how long there was room
 * @property {[number, number]|null} lease how long it was needed
 * @property {string} text
 */

/** @param {any} g @param {import("./skyline.js").Skyline} skyline @param {Mark} mark @param {(value: number) => number} y */
export function drawMark(g, skyline, mark, y) {
  const { stage } = skyline;
  const colours = palette();
  if (mark.window) drawWindowOf(g, stage, mark.window, y(0));
  const x = Math.round(stage.x(mark.at)) + 0.5;
  const held = skyline.heldAt(mark.at);
  g.lineWidth = 2;
  if (mark.needed !== null) {
    const [top, floor] = [y(held + mark.needed), y(held)];
    hatchRect(g, x - 9, top, 18, floor - top, colours.bad, 5);
    g.strokeStyle = colours.bad;
    g.strokeRect(x - 9, top, 18, floor - top);
  } else if (mark.room && mark.lease) {
    const middle = (y(skyline.nominal) + y(0)) / 2;
    drawLength(g, stage, mark.room, middle - 9, { fill: colours.good });
    drawLength(g, stage, mark.lease, middle - 9, { line: colours.bad });
  }
  g.strokeStyle = colours.bad;
  g.lineWidth = 2;
  g.setLineDash([5, 3]);
  g.beginPath();
  g.moveTo(x, 0);
  g.lineTo(x, y(0));
  g.stroke();
  g.setLineDash([]);
  drawText(g, stage, mark.text, x);
}

/** @param {any} g @param {import("./stage.js").Stage} stage @param {[number, number]} window @param {number} bottom */
function drawWindowOf(g, stage, [from, to], bottom) {
  const colours = palette();
  const [left, right] = [stage.x(from), stage.x(to)];
  g.strokeStyle = colours.accent;
  g.lineWidth = 1.5;
  g.strokeRect(left, 1, right - left, bottom - 2);
}

/** @param {any} g @param {import("./stage.js").Stage} stage @param {[number, number]} part @param {number} y @param {{fill?: string, line?: string}} how */
function drawLength(g, stage, [from, to], y, { fill, line }) {
  const [left, right] = [stage.x(from), stage.x(to)];
  if (fill) {
    g.fillStyle = fill;
    g.fillRect(left, y, right - left, 18);
  }
  if (line) {
    g.strokeStyle = palette().panel;
    g.lineWidth = 5;
    g.strokeRect(left, y, right - left, 18);
    g.strokeStyle = line;
    g.lineWidth = 2;
    g.strokeRect(left, y, right - left, 18);
  }
}

/** @param {any} g @param {import("./stage.js").Stage} stage @param {string} text @param {number} x */
function drawText(g, stage, text, x) {
  const colours = palette();
  g.font = `600 ${FONT}`;
  g.textBaseline = "middle";
  const wide = g.measureText(text).width + 12;
  const left = x + wide + 16 < stage.width ? x + 12 : Math.max(stage.left, x - wide - 12);
  g.fillStyle = colours.panel;
  g.fillRect(left, 22, wide, 20);
  g.strokeStyle = colours.bad;
  g.lineWidth = 1;
  g.strokeRect(left, 22, wide, 20);
  g.fillStyle = colours.bad;
  g.textAlign = "left";
  g.fillText(text, left + 6, 32);
}
