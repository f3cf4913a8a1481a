// What is held over time, in layers under the capacity line; ghosts and marks stand above it.
import { amount, count } from "../core/numbers.js";
import { levels } from "./axis.js";
import { drawMark } from "./mark.js";
import { lookOf, palette } from "./palette.js";
import { BELOW, Stage } from "./stage.js";
import { drawNow, drawTimes, FONT, hatch, hatchRect, staircase } from "./strokes.js";

/**
 * @typedef {object} SkylineBody as `GET /v1/plan/skyline` answers
 * @property {number} from
 * @property {number} to
 * @property {number} step
 * @property {string} resource
 * @property {string} unit
 * @property {number[]} capacity
 * @property {{name: string|null, slot: number|null, amounts: number[]}[]} layers
 */

const ABOVE = 18;

export class Skyline {
  /**
   * @param {HTMLElement} host
   * @param {import("./span.js").Span} span
   * @param {import("../core/times.js").Times} times
   */
  constructor(host, span, times) {
    this.times = times;
    /** @type {SkylineBody|null} */
    this.data = null;
    /** @type {Float64Array[]} */
    this.tops = [];
    this.total = new Float64Array(0);
    this.nominal = 0;
    /** The layer that is shown alone. @type {string|null|undefined} */
    this.alone = undefined;
    /** What a request would hold: sorted, not overlapping. @type {{from: number, to: number, amount: number}[]} */
    this.ghost = [];
    /** @type {import("./mark.js").Mark|null} */
    this.mark = null;
    /** @type {number|null} */
    this.pointed = null;
    /** Told the sentence on the instant that is pointed at; empty where none is. @type {(text: string) => void} */
    this.onpoint = () => {};
    this.stage = new Stage(host, span, {
      draw: (g, width, height) => this.draw(g, width, height),
      hover: (x) => this.point(x < this.stage.left ? null : this.stage.at(x)),
    });
    times.addEventListener("change", () => this.stage.ask());
  }

  /** @param {SkylineBody} data */
  set(data) {
    this.data = data;
    this.total = new Float64Array(data.capacity.length);
    this.tops = data.layers.map((layer) => {
      for (let n = 0; n < this.total.length; n += 1) this.total[n] += layer.amounts[n];
      return this.total.slice();
    });
    this.nominal = Math.max(1, ...data.capacity);
    this.stage.ask();
  }

  /** The most that the picture reaches up to. */
  get most() {
    const ghost = this.ghost.map((one) => one.amount + this.#heldMost(one.from, one.to));
    const mark = this.mark?.needed ? this.mark.needed + this.heldAt(this.mark.at) : 0;
    return Math.max(this.nominal, mark, ...ghost);
  }

  /** @param {number} at */
  #place(at) {
    return this.data ? Math.floor((at - this.data.from) / this.data.step) : -1;
  }

  /** @param {number} at */
  heldAt(at) {
    return this.total[this.#place(at)] ?? 0;
  }

  /** @param {number} from @param {number} to */
  #heldMost(from, to) {
    let most = 0;
    for (let n = Math.max(0, this.#place(from)); n < this.total.length && n <= this.#place(to - 1e-6); n += 1) most = Math.max(most, this.total[n]);
    return most;
  }

  /** Points at an instant; null: at none. @param {number|null} at */
  point(at) {
    this.pointed = at;
    this.onpoint(at === null ? "" : this.says(at));
    this.stage.ask();
  }

  /** What is held at an instant, in a sentence. @param {number} at */
  says(at) {
    const n = this.#place(at);
    if (!this.data || n < 0 || n >= this.total.length) return "";
    const { layers, capacity, unit } = this.data;
    const most = layers.map((layer) => /** @type {[string, number]} */ ([layer.name ?? "others", layer.amounts[n]]))
      .filter(([, held]) => held > 0).sort((a, b) => b[1] - a[1]).slice(0, 3)
      .map(([name, held]) => `${name} ${unit === "MiB" ? amount(held, unit) : count(held)}`);
    const begin = this.data.from + n * this.data.step;
    return [`${this.times.full(begin)} · ${amount(this.total[n], "")} of ${amount(capacity[n], unit)}`, ...most].join(" · ");
  }

  /** @param {any} g @param {number} width @param {number} height */
  draw(g, width, height) {
    const { data, stage } = this;
    const colours = palette();
    const bottom = height - BELOW;
    const most = this.most;
    const y = (/** @type {number} */ value) => bottom - (value / most) * (bottom - ABOVE);
    this.#drawLevels(g, width, y, most);
    drawTimes(g, stage, this.times);
    if (!data) return;
    g.save();
    g.beginPath();
    g.rect(this.stage.left, 0, width - this.stage.left, bottom);
    g.clip();
    this.#drawLayers(g, y, bottom);
    this.#drawAway(g, y);
    g.strokeStyle = colours.capacity;
    g.lineWidth = 2;
    g.beginPath();
    staircase(g, { ...data, values: data.capacity }, stage, y, null);
    g.stroke();
    this.#drawGhost(g, y);
    if (this.mark) drawMark(g, this, this.mark, y);
    drawNow(g, stage, this.times.present(), true);
    if (this.pointed !== null) {
      const x = Math.round(stage.x(this.pointed)) + 0.5;
      g.strokeStyle = colours.accent;
      g.lineWidth = 1;
      g.beginPath();
      g.moveTo(x, 0);
      g.lineTo(x, bottom);
      g.stroke();
    }
    g.restore();
  }

  /** @param {any} g @param {number} width @param {(value: number) => number} y @param {number} most */
  #drawLevels(g, width, y, most) {
    const colours = palette();
    const unit = this.data?.unit ?? "";
    const size = unit === "MiB" ? (most >= 4 << 20 ? 1 << 20 : 1024) : 1;
    g.font = FONT;
    g.textAlign = "right";
    g.textBaseline = "middle";
    g.lineWidth = 1;
    for (const level of levels(most / size)) {
      const at = Math.round(y(level * size)) + 0.5;
      g.strokeStyle = colours.grid;
      g.beginPath();
      g.moveTo(this.stage.left, at);
      g.lineTo(width, at);
      g.stroke();
      g.fillStyle = colours.faint;
      g.fillText(`${count(level)}${size === 1 ? "" : size === 1024 ? " GiB" : " TiB"}`, this.stage.left - 7, at);
    }
  }

  /** @param {any} g @param {(value: number) => number} y @param {number} floor */
  #drawLayers(g, y, floor) {
    const { layers } = /** @type {SkylineBody} */ (this.data);
    const series = /** @type {SkylineBody} */ (this.data);
    const colours = palette();
    const box = { left: this.stage.left, top: 0, right: this.stage.width, bottom: floor };
    const bucket = (series.step / this.stage.span.length) * (this.stage.width - this.stage.left);
    const alone = layers.find((layer) => this.alone !== undefined && layer.name === this.alone);
    const shown = alone ? [{ layer: alone, values: alone.amounts }]
      : layers.map((layer, n) => ({ layer, values: this.tops[n] })).reverse();
    if (alone) {
      g.fillStyle = colours.grid;
      g.beginPath();
      staircase(g, { ...series, values: this.total }, this.stage, y, floor);
      g.fill();
    }
    for (const { layer, values } of shown) {
      const look = lookOf(layer.slot);
      g.fillStyle = look.colour;
      g.beginPath();
      staircase(g, { ...series, values }, this.stage, y, floor);
      g.fill();
      g.strokeStyle = colours.panel;
      g.lineWidth = Math.min(0.75, bucket * 0.8);
      g.stroke();
      if (look.hatched) hatch(g, box, colours.panel);
    }
  }

  /** What outages take away: hatched, between what there is and what there was. @param {any} g @param {(value: number) => number} y */
  #drawAway(g, y) {
    const { capacity, from, step } = /** @type {SkylineBody} */ (this.data);
    const { span } = this.stage;
    const first = Math.max(0, Math.floor((span.from - from) / step));
    const last = Math.min(capacity.length, Math.ceil((span.to - from) / step) + 1);
    for (let n = first; n < last;) {
      let end = n + 1;
      while (end < last && capacity[end] === capacity[n]) end += 1;
      if (capacity[n] < this.nominal) {
        const [left, right] = [this.stage.x(from + n * step), this.stage.x(from + end * step)];
        hatchRect(g, left, y(this.nominal), right - left, y(capacity[n]) - y(this.nominal), palette().border, 7);
      }
      n = end;
    }
  }

  /** @param {any} g @param {(value: number) => number} y */
  #drawGhost(g, y) {
    const colours = palette();
    for (const one of this.ghost) {
      const base = this.#heldMost(one.from, one.to);
      const [left, right] = [this.stage.x(one.from), this.stage.x(one.to)];
      const [top, floor] = [y(base + one.amount), y(base)];
      g.fillStyle = colours.wash;
      g.fillRect(left, top, right - left, floor - top);
      g.strokeStyle = colours.accent;
      g.lineWidth = 2;
      g.setLineDash([6, 4]);
      g.strokeRect(left, top, right - left, floor - top);
      g.setLineDash([]);
    }
  }
}

/**
 * The names of layers as buttons, each with its colour; pressed: shown alone.
 * @param {{name: string|null, slot: number|null}[]} layers
 * @param {(name: string|null) => void} press
 * @param {string|null|undefined} alone
 */
export function legend(layers, press, alone) {
  return layers.map((layer, n) => {
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("aria-pressed", String(alone !== undefined && layer.name === alone));
    if (n < 9) button.setAttribute("aria-keyshortcuts", String(n + 1));
    button.append(swatch(layer.slot), layer.name ?? "others");
    button.addEventListener("click", () => press(layer.name));
    return button;
  });
}

/** A tenant's colour as a small picture. @param {number|null} slot */
export function swatch(slot) {
  const look = lookOf(slot);
  const space = "http://www.w3.org/2000/svg";
  const box = document.createElementNS(space, "svg");
  box.setAttribute("class", "swatch");
  box.setAttribute("viewBox", "0 0 12 12");
  box.setAttribute("aria-hidden", "true");
  const square = document.createElementNS(space, "rect");
  square.setAttribute("width", "12");
  square.setAttribute("height", "12");
  square.setAttribute("rx", "2");
  square.setAttribute("fill", look.colour);
  box.append(square);
  if (look.hatched) {
    const lines = document.createElementNS(space, "path");
    lines.setAttribute("d", "M0 6 6 0M0 12 12 0M6 12 12 6");
    lines.setAttribute("stroke", palette().panel);
    lines.setAttribute("stroke-width", "1.5");
    box.append(lines);
  }
  return box;
}
