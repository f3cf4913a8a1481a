// A pen that draws into SVG with the words of a canvas, so that a picture is drawn by one code.

const SPACE = "http://www.w3.org/2000/svg";

/** What pictures use of a canvas' 2D context, written as SVG. */
export class SvgPen {
  /** @param {number} width @param {number} height */
  constructor(width, height) {
    this.root = document.createElementNS(SPACE, "svg");
    for (const [name, value] of Object.entries({ xmlns: SPACE, width, height, viewBox: `0 0 ${width} ${height}` })) {
      this.root.setAttribute(name, String(value));
    }
    this.target = /** @type {Element} */ (this.root);
    /** @type {any[]} */
    this.stack = [];
    this.clips = 0;
    this.path = "";
    this.dash = /** @type {number[]} */ ([]);
    this.fillStyle = "#000";
    this.strokeStyle = "#000";
    this.lineWidth = 1;
    this.globalAlpha = 1;
    this.font = "12px sans-serif";
    this.textAlign = "left";
    this.textBaseline = "middle";
    this.ruler = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));
  }

  /** @param {string} name @param {Record<string, any>} settings */
  #put(name, settings) {
    const made = document.createElementNS(SPACE, name);
    for (const [key, value] of Object.entries(settings)) made.setAttribute(key, String(value));
    if (this.globalAlpha < 1) made.setAttribute("opacity", String(this.globalAlpha));
    this.target.append(made);
    return made;
  }

  get #stroke() {
    return { fill: "none", stroke: this.strokeStyle, "stroke-width": this.lineWidth, ...(this.dash.length ? { "stroke-dasharray": this.dash.join(" ") } : {}) };
  }

  beginPath() { this.path = ""; }
  /** @param {number} x @param {number} y */
  moveTo(x, y) { this.path += `M${round(x)} ${round(y)}`; }
  /** @param {number} x @param {number} y */
  lineTo(x, y) { this.path += `L${round(x)} ${round(y)}`; }
  closePath() { this.path += "Z"; }
  /** @param {number} x @param {number} y @param {number} w @param {number} h */
  rect(x, y, w, h) { this.path += `M${round(x)} ${round(y)}h${round(w)}v${round(h)}h${round(-w)}Z`; }
  fill() { if (this.path) this.#put("path", { d: this.path, fill: this.fillStyle }); }
  stroke() { if (this.path) this.#put("path", { d: this.path, ...this.#stroke }); }
  /** @param {number} x @param {number} y @param {number} w @param {number} h */
  fillRect(x, y, w, h) { if (w > 0 && h > 0) this.#put("rect", { x: round(x), y: round(y), width: round(w), height: round(h), fill: this.fillStyle }); }
  /** @param {number} x @param {number} y @param {number} w @param {number} h */
  strokeRect(x, y, w, h) { if (w >= 0 && h >= 0) this.#put("rect", { x: round(x), y: round(y), width: round(w), height: round(h), ...this.#stroke }); }
  /** @param {number[]} dash */
  setLineDash(dash) { this.dash = dash; }
  /** @param {string} text */
  measureText(text) {
    this.ruler.font = this.font;
    return this.ruler.measureText(text);
  }

  /** @param {string} text @param {number} x @param {number} y */
  fillText(text, x, y) {
    const anchor = { center: "middle", right: "end" }[this.textAlign] ?? "start";
    const [, weight, size] = /^(?:(\d+) )?(\S+)/.exec(this.font) ?? [];
    this.#put("text", {
      x: round(x), y: round(y), fill: this.fillStyle, "text-anchor": anchor, "dominant-baseline": "central",
      "font-family": "system-ui, sans-serif", "font-size": size ?? "12px", ...(weight ? { "font-weight": weight } : {}),
    }).textContent = text;
  }

  clip() {
    this.clips += 1;
    const clip = this.#put("clipPath", { id: `clip-${this.clips}` });
    const path = document.createElementNS(SPACE, "path");
    path.setAttribute("d", this.path);
    clip.append(path);
    this.target = this.#put("g", { "clip-path": `url(#clip-${this.clips})` });
  }

  save() {
    const { target, fillStyle, strokeStyle, lineWidth, font, textAlign, textBaseline, dash } = this;
    this.stack.push({ target, fillStyle, strokeStyle, lineWidth, font, textAlign, textBaseline, dash });
  }

  restore() { Object.assign(this, this.stack.pop()); }

  toString() { return new XMLSerializer().serializeToString(this.root); }
}

/** @param {number} value */
const round = (value) => Math.round(value * 100) / 100;
