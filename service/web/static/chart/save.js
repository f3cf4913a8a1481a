// What is seen as a file: PNG out of the canvas, SVG by drawing it again.
import { palette } from "./palette.js";
import { SvgPen } from "./pen.js";

const GAP = 12;

/**
 * @typedef {object} Shown
 * @property {import("./stage.js").Stage} stage
 * @property {(g: any, width: number, height: number) => void} draw
 */

/** @param {Shown[]} pictures */
const shownOf = (pictures) => pictures.filter(({ stage }) => stage.host.offsetParent !== null && stage.width > 0);

/** @param {Shown[]} pictures one below the other @returns {string} */
export function svgOf(pictures) {
  const shown = shownOf(pictures);
  const width = Math.max(...shown.map(({ stage }) => stage.width));
  const height = shown.reduce((sum, { stage }) => sum + stage.height + GAP, 0);
  const whole = new SvgPen(width, height);
  whole.fillStyle = palette().panel;
  whole.fillRect(0, 0, width, height);
  let top = 0;
  for (const { stage, draw } of shown) {
    const pen = new SvgPen(stage.width, stage.height);
    pen.clips = 1000 * (1 + whole.root.childElementCount);
    draw(pen, stage.width, stage.height);
    pen.root.setAttribute("y", String(top));
    whole.root.append(pen.root);
    top += stage.height + GAP;
  }
  return whole.toString();
}

/** @param {Shown[]} pictures @returns {Promise<Blob>} */
export function pngOf(pictures) {
  const shown = shownOf(pictures);
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(...shown.map(({ stage }) => stage.canvas.width));
  canvas.height = shown.reduce((sum, { stage }) => sum + stage.canvas.height + GAP, 0);
  const g = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  g.fillStyle = palette().panel;
  g.fillRect(0, 0, canvas.width, canvas.height);
  let top = 0;
  for (const { stage } of shown) {
    g.drawImage(stage.canvas, 0, top);
    top += stage.canvas.height + GAP;
  }
  return new Promise((done) => canvas.toBlob((blob) => done(/** @type {Blob} */ (blob)), "image/png"));
}

/** Hands a file to the browser's downloads. @param {Blob} blob @param {string} name */
export function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/**
 * Has buttons save pictures, and one print the page.
 * @param {Shown[]} pictures
 * @param {() => string} name of the file, without its ending
 * @param {{png?: HTMLElement, svg?: HTMLElement, print?: HTMLElement}} buttons
 */
export function offerSaving(pictures, name, { png, svg, print: printer }) {
  png?.addEventListener("click", async () => download(await pngOf(pictures), `${name()}.png`));
  svg?.addEventListener("click", () => download(new Blob([svgOf(pictures)], { type: "image/svg+xml" }), `${name()}.svg`));
  printer?.addEventListener("click", () => window.print());
}
