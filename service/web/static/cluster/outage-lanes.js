// Outages over time: a lane for each group, a bar for each outage, hatched by its kind.
import { palette } from "../chart/palette.js";
import { BELOW, LEFT, Stage } from "../chart/stage.js";
import { drawNow, drawTimes, fitted, FONT, hatchRect } from "../chart/strokes.js";

const TRACK = 22;
const GAP = 8;
const TOP = 6;
/** Colour by kind; the hatching tells them apart, too. */
const LOOKS = /** @type {Record<string, {colour: string, apart: number, cross: boolean}>} */ ({
  loss: { colour: "bad", apart: 6, cross: true },
  drain: { colour: "accent", apart: 11, cross: false },
  maintenance: { colour: "warn", apart: 5, cross: false },
  reserved: { colour: "warn", apart: 9, cross: true },
  spare: { colour: "faint", apart: 9, cross: false },
});

/**
 * @typedef {object} Bar
 * @property {any} outage
 * @property {number} lane
 * @property {number} track
 * @property {boolean} ghost
 */

export class OutageLanes {
  /**
   * @param {HTMLElement} host
   * @param {import("../chart/span.js").Span} span
   * @param {import("../core/times.js").Times} times
   * @param {(outage: any) => void} choose
   */
  constructor(host, span, times, choose) {
    this.host = host;
    this.span = span;
    this.times = times;
    /** @type {{name: string, count: number}[]} */
    this.groups = [];
    /** @type {Bar[]} */
    this.bars = [];
    /** @type {number[]} */
    this.tops = [];
    this.chosen = "";
    this.stage = new Stage(host, span, {
      draw: (g, width, height) => this.draw(g, width, height),
      press: (x, y) => {
        const bar = this.#at(x, y);
        if (bar && !bar.ghost) choose(bar.outage);
      },
      hover: (x, y) => { host.title = x < 0 ? "" : this.#says(this.#at(x, y)); },
    });
  }

  /**
   * @param {{name: string, count: number}[]} groups
   * @param {any[]} outages
   * @param {any} ghost one that is only asked about; null: none
   */
  show(groups, outages, ghost) {
    this.groups = groups;
    this.bars = [];
    this.tops = [];
    let top = TOP;
    groups.forEach((group, lane) => {
      const here = outages.filter((one) => one.machines === group.name);
      const own = [...here.map((outage) => ({ outage, ghost: false })),
        ...(ghost?.machines === group.name ? [{ outage: ghost, ghost: true }] : [])];
      /** @type {number[]} */
      const free = [];
      for (const one of own.sort((a, b) => a.outage.start - b.outage.start)) {
        let track = free.findIndex((until) => until <= one.outage.start);
        if (track < 0) track = free.length;
        free[track] = one.outage.end;
        this.bars.push({ ...one, lane, track });
      }
      this.tops.push(top);
      top += Math.max(1, free.length) * TRACK + GAP;
    });
    this.tops.push(top);
    this.host.style.height = `${top + BELOW}px`;
    this.stage.measure();
  }

  /** @param {string} id of the outage that is chosen */
  mark(id) {
    this.chosen = id;
    this.stage.ask();
  }

  /** @param {Bar} bar */
  #box(bar) {
    const [x, end] = [this.stage.x(bar.outage.start), this.stage.x(bar.outage.end)];
    return { x, y: this.tops[bar.lane] + bar.track * TRACK, width: Math.max(end - x, 3), height: TRACK - 4 };
  }

  /** @param {number} x @param {number} y */
  #at(x, y) {
    return this.bars.find((bar) => {
      const box = this.#box(bar);
      return x >= box.x && x <= box.x + box.width && y >= box.y && y <= box.y + box.height;
    });
  }

  /** @param {Bar|undefined} bar */
  #says(bar) {
    if (!bar) return "";
    const { outage } = bar;
    return `${outage.kind}: ${outage.names.length} of ${outage.machines}, ${this.times.span(outage.start, outage.end)}`;
  }

  /** @param {any} g @param {number} width @param {number} height */
  draw(g, width, height) {
    drawTimes(g, this.stage, this.times);
    this.#drawLanes(g, width);
    g.save();
    g.beginPath();
    g.rect(LEFT, 0, width - LEFT, height - BELOW);
    g.clip();
    for (const bar of this.bars) this.#drawBar(g, bar);
    g.restore();
    drawNow(g, this.stage, this.times.present());
  }

  /** @param {any} g @param {number} width */
  #drawLanes(g, width) {
    const colours = palette();
    g.font = FONT;
    g.textBaseline = "middle";
    g.textAlign = "right";
    this.groups.forEach((group, lane) => {
      g.fillStyle = colours.ink;
      g.fillText(fitted(g, group.name, LEFT - 12), LEFT - 8, this.tops[lane] + TRACK / 2 - 2);
      g.fillStyle = colours.line;
      g.fillRect(0, this.tops[lane + 1] - GAP / 2, width, 1);
    });
  }

  /** @param {any} g @param {Bar} bar */
  #drawBar(g, bar) {
    const colours = palette();
    const look = LOOKS[bar.outage.kind] ?? LOOKS.loss;
    const colour = colours[look.colour];
    const box = this.#box(bar);
    const [left, right] = [Math.max(box.x, LEFT - 4), Math.min(box.x + box.width, this.stage.width + 4)];
    if (right <= left) return;
    if (!bar.ghost) {
      hatchRect(g, left, box.y, right - left, box.height, colour, look.apart);
      if (look.cross) crossLines(g, left, box.y, right - left, box.height, colour, look.apart);
    }
    g.strokeStyle = colour;
    g.lineWidth = bar.outage.id === this.chosen ? 3 : 1.5;
    g.setLineDash(bar.ghost ? [5, 4] : []);
    g.strokeRect(left, box.y, right - left, box.height);
    g.setLineDash([]);
    const text = `${bar.outage.names.length} of ${this.groups[bar.lane].count}`;
    g.font = FONT;
    const wide = g.measureText(text).width;
    if (right - left < wide + 16) return;
    g.fillStyle = colours.panel;
    g.fillRect(left + 3, box.y + 2, wide + 8, box.height - 4);
    g.fillStyle = colours.ink;
    g.textAlign = "left";
    g.fillText(text, left + 7, box.y + box.height / 2 + 0.5);
  }
}

/**
 * Lines across those of `hatchRect`.
 * @param {any} g @param {number} x @param {number} y @param {number} width @param {number} height
 * @param {string} colour @param {number} apart
 */
function crossLines(g, x, y, width, height, colour, apart) {
  g.save();
  g.beginPath();
  g.rect(x, y, width, height);
  g.clip();
  g.strokeStyle = colour;
  g.lineWidth = 1;
  g.beginPath();
  for (let at = Math.floor((x - height) / apart) * apart; at < x + width; at += apart) {
    g.moveTo(at, y);
    g.lineTo(at + height, y + height);
  }
  g.stroke();
  g.restore();
}
