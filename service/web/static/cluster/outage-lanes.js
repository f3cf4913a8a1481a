// Outages over time: a lane for each group, a bar for each outage, hatched by its kind.
import { BELOW, Stage } from "../chart/stage.js";
import { ticks } from "../chart/axis.js";
import { palette } from "../chart/palette.js";

const TRACK = 22;
const GAP = 8;
const TOP = 6;
/** Colour by kind; the hatching tells them apart, too. */
const LOOKS = /** @type {Record<string, {colour: string, step: number, cross: boolean}>} */ ({
  loss: { colour: "bad", step: 6, cross: true },
  drain: { colour: "accent", step: 9, cross: false },
  maintenance: { colour: "warn", step: 5, cross: false },
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
      draw: (g, width, height) => this.#draw(g, width, height),
      press: (x, y) => {
        const bar = this.#at(x, y);
        if (bar && !bar.ghost) choose(bar.outage);
      },
      hover: (x, y) => { host.title = x < 0 ? "" : this.#says(this.#at(x, y)); },
    });
    this.stage.left = 120;
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
  #draw(g, width, height) {
    const { stage } = this;
    const colours = palette();
    const bottom = height - BELOW;
    g.font = "12px system-ui, sans-serif";
    g.textBaseline = "middle";
    for (const tick of ticks(this.span.from, this.span.to, width - stage.left, this.times)) {
      const x = Math.round(stage.x(tick.at)) + 0.5;
      if (x < stage.left) continue;
      g.fillStyle = tick.day ? colours.line : colours.grid;
      g.fillRect(x, 0, 1, bottom);
      g.fillStyle = colours.faint;
      g.textAlign = x > width - 30 ? "right" : "center";
      g.fillText(tick.text, x, height - BELOW / 2);
    }
    this.#drawLanes(g, width);
    g.save();
    g.beginPath();
    g.rect(stage.left, 0, width - stage.left, bottom);
    g.clip();
    for (const bar of this.bars) this.#drawBar(g, bar);
    const now = stage.x(this.times.present());
    g.fillStyle = colours.now;
    g.fillRect(Math.round(now), 0, 1.5, bottom);
    g.restore();
  }

  /** @param {any} g @param {number} width */
  #drawLanes(g, width) {
    const colours = palette();
    this.groups.forEach((group, lane) => {
      const [top, next] = [this.tops[lane], this.tops[lane + 1]];
      g.fillStyle = colours.ink;
      g.textAlign = "right";
      const name = group.name.length > 15 ? `${group.name.slice(0, 14)}…` : group.name;
      g.fillText(name, this.stage.left - 8, top + TRACK / 2 - 2);
      g.fillStyle = colours.line;
      g.fillRect(0, next - GAP / 2, width, 1);
    });
  }

  /** @param {any} g @param {Bar} bar */
  #drawBar(g, bar) {
    const colours = palette();
    const look = LOOKS[bar.outage.kind] ?? LOOKS.loss;
    const { x, y, width, height } = this.#box(bar);
    g.save();
    g.beginPath();
    g.rect(x, y, width, height);
    g.strokeStyle = colours[look.colour];
    if (bar.ghost) g.setLineDash([5, 4]);
    g.lineWidth = bar.outage.id === this.chosen ? 3 : 1.5;
    g.stroke();
    g.clip();
    if (!bar.ghost) hatch(g, x, y, width, height, look);
    g.restore();
    const text = `${bar.outage.names.length} of ${this.groups[bar.lane].count}`;
    if (width < g.measureText(text).width + 16) return;
    const left = Math.max(x, this.stage.left) + 6;
    g.fillStyle = colours.panel;
    g.fillRect(left - 3, y + 2, g.measureText(text).width + 6, height - 4);
    g.fillStyle = colours.ink;
    g.textAlign = "left";
    g.fillText(text, left, y + height / 2 + 0.5);
  }
}

/**
 * @param {any} g @param {number} x @param {number} y @param {number} width @param {number} height
 * @param {{step: number, cross: boolean}} look
 */
function hatch(g, x, y, width, height, look) {
  const first = x - height - ((x - height) % look.step);
  const last = x + width + height;
  g.lineWidth = 1;
  g.globalAlpha = 0.75;
  g.beginPath();
  for (let at = Math.max(first, -2 * height); at < Math.min(last, 4000); at += look.step) {
    g.moveTo(at, y + height);
    g.lineTo(at + height, y);
    if (look.cross) {
      g.moveTo(at, y);
      g.lineTo(at + height, y + height);
    }
  }
  g.stroke();
}
