// Reservations over time, a lane each: its window as a thin line, what it holds as a bar.
import { count, counted } from "../core/numbers.js";
import { lookOf, palette } from "./palette.js";
import { BELOW, Stage } from "./stage.js";
import { drawNow, drawTimes, fitted, fittedMiddle, FONT, hatchRect } from "./strokes.js";

const LANE = 19;
const NAMED = 11; // a lane this high has its name

/** @typedef {import("./bars.js").Bar} Bar */

export class Gantt {
  /**
   * @param {HTMLElement} host
   * @param {import("./span.js").Span} span
   * @param {import("../core/times.js").Times} times
   */
  constructor(host, span, times) {
    this.times = times;
    /** @type {Bar[]} */
    this.bars = [];
    this.top = 0;
    this.fitsAll = false;
    this.chosen = -1;
    /** Whether the bars of each tenant follow each other. */
    this.isByTenant = true;
    /** @type {Map<string, number>} by tenant */
    this.counts = new Map();
    /** @type {(bar: Bar, place: number) => void} */
    this.onchosen = () => {};
    /** @type {(bar: Bar) => void} */
    this.onopen = () => {};
    this.stage = new Stage(host, span, {
      draw: (g, width, height) => this.draw(g, width, height),
      scroll: (by) => this.scroll(by),
      press: (_, y) => this.press(y),
    });
    times.addEventListener("change", () => this.stage.ask());
  }

  /** Shows other bars; what was chosen stays chosen where it is among them. @param {Bar[]} bars */
  set(bars) {
    const kept = this.bars[this.chosen]?.id;
    this.bars = bars;
    const runs = bars.filter((bar, n) => !n || bar.tenant !== bars[n - 1].tenant).length;
    this.counts.clear();
    for (const { tenant } of bars) this.counts.set(tenant, (this.counts.get(tenant) ?? 0) + 1);
    this.isByTenant = runs === this.counts.size;
    this.chosen = kept === undefined ? -1 : bars.findIndex((bar) => bar.id === kept);
    this.scroll(0);
    this.stage.ask();
  }

  get room() {
    return Math.max(1, this.stage.height - BELOW);
  }

  /** Pixels of a lane. */
  get lane() {
    return this.fitsAll ? Math.min(LANE, this.room / Math.max(1, this.bars.length)) : LANE;
  }

  get page() {
    return Math.max(1, Math.floor(this.room / this.lane) - 1);
  }

  /** @param {number} by pixels @returns {boolean} whether anything moved */
  scroll(by) {
    const most = Math.max(0, this.bars.length * this.lane - this.room);
    const top = Math.min(Math.max(this.top + by, 0), most);
    if (top === this.top) return false;
    this.top = top;
    this.stage.ask();
    return true;
  }

  /** @param {number} y */
  press(y) {
    const place = Math.floor((y + this.top) / this.lane);
    if (y >= this.room || !this.bars[place]) return;
    this.choose(place);
    this.onopen(this.bars[place]);
  }

  /** Chooses a lane, and brings it and its time into view. @param {number} place */
  choose(place) {
    if (!this.bars.length) return;
    this.chosen = Math.min(Math.max(place, 0), this.bars.length - 1);
    const bar = this.bars[this.chosen];
    const y = this.chosen * this.lane;
    if (y < this.top) this.scroll(y - this.top);
    else if (y + this.lane > this.top + this.room) this.scroll(y + this.lane - this.top - this.room);
    const { span } = this.stage;
    if (bar.finish <= span.from || bar.begin >= span.to) span.center((bar.begin + bar.finish) / 2);
    this.stage.ask();
    this.onchosen(bar, this.chosen);
  }

  /** A reservation in a sentence. @param {Bar} bar */
  says(bar) {
    const window = bar.until === null || bar.from === null ? "" : `, window ${this.times.span(bar.from, bar.until)}`;
    return `${bar.id}, tenant ${bar.tenant}, ${bar.state}, holds up to ${counted(bar.peak, "bundle")} ${this.times.span(bar.begin, bar.isEndless ? null : bar.finish)}${window}`;
  }

  /** @param {any} g @param {number} width @param {number} height */
  draw(g, width, height) {
    drawTimes(g, this.stage, this.times);
    const { lane, room } = this;
    const first = Math.max(0, Math.floor(this.top / lane));
    const last = Math.min(this.bars.length, Math.ceil((this.top + room) / lane));
    g.save();
    g.beginPath();
    g.rect(0, 0, width, room);
    g.clip();
    if (lane >= NAMED) this.#drawNames(g, first, last);
    else if (this.isByTenant) this.#drawTenants(g, width);
    g.beginPath();
    g.rect(this.stage.left, 0, width - this.stage.left, room);
    g.clip();
    if (lane >= 5) this.#drawLanes(g, first, last);
    else this.#drawThin(g, first, last);
    if (lane >= NAMED && this.isByTenant) this.#drawHeaders(g, first, last, width);
    drawNow(g, this.stage, this.times.present());
    g.restore();
    this.#drawChosen(g, width);
    this.#drawScroll(g, width);
    void height;
  }

  /** @param {any} g @param {number} first @param {number} last */
  #drawNames(g, first, last) {
    const colours = palette();
    g.font = FONT;
    g.textAlign = "right";
    g.textBaseline = "middle";
    for (let n = first; n < last; n += 1) {
      const { id } = this.bars[n];
      g.fillStyle = n === this.chosen ? colours.accent : colours.ink;
      g.fillText(fittedMiddle(g, id, this.stage.left - 12), this.stage.left - 7, n * this.lane - this.top + this.lane / 2);
    }
  }

  /** Where lanes are too low for names: where each tenant begins. @param {any} g @param {number} width */
  #drawTenants(g, width) {
    const colours = palette();
    g.font = FONT;
    g.textAlign = "right";
    g.textBaseline = "top";
    let end = -Infinity; // of the last name
    for (const [n, bar] of this.bars.entries()) {
      if (n && bar.tenant === this.bars[n - 1].tenant) continue;
      const y = n * this.lane - this.top;
      g.fillStyle = colours.line;
      g.fillRect(0, Math.round(y), width, 1);
      if (y < end || y < -14 || y > this.room) continue;
      g.fillStyle = colours.ink;
      g.fillText(fitted(g, bar.tenant, this.stage.left - 12), this.stage.left - 7, y + 2);
      end = y + 15;
    }
  }

  /** Names of tenants, where each begins. @param {any} g @param {number} first @param {number} last @param {number} width */
  #drawHeaders(g, first, last, width) {
    if (this.counts.size < 2) return;
    const colours = palette();
    for (let n = first; n < last; n += 1) {
      const { tenant } = this.bars[n];
      const begins = !n || tenant !== this.bars[n - 1].tenant;
      if (!begins && n > first) continue;
      const y = Math.max(n * this.lane - this.top, 0);
      if (begins) {
        g.fillStyle = colours.line;
        g.fillRect(this.stage.left, Math.round(y), width, 1);
      }
      const text = fitted(g, `${tenant}: ${count(this.counts.get(tenant) ?? 0)}`, width / 2);
      const wide = g.measureText(text).width;
      g.fillStyle = colours.panel;
      g.fillRect(width - wide - 16, y + 1, wide + 8, this.lane - 2);
      g.fillStyle = colours.ink;
      g.textAlign = "right";
      g.fillText(text, width - 12, y + this.lane / 2);
    }
  }

  /** @param {any} g @param {number} first @param {number} last */
  #drawLanes(g, first, last) {
    const { lane, stage } = this;
    const scale = (stage.width - this.stage.left) / stage.span.length;
    const x = (/** @type {number} */ at) => this.stage.left + (at - stage.span.from) * scale;
    for (let n = first; n < last; n += 1) {
      const bar = this.bars[n];
      const y = n * lane - this.top;
      drawWindow(g, bar, x, y, lane);
      drawHeld(g, bar, x, y, lane);
    }
  }

  /** Lanes too low for details: one line a reservation. @param {any} g @param {number} first @param {number} last */
  #drawThin(g, first, last) {
    const { lane, stage } = this;
    const scale = (stage.width - stage.left) / stage.span.length;
    const high = Math.max(lane * 0.85, 1);
    const line = new ThinLine(g, high);
    for (let n = first; n < last; n += 1) {
      const bar = this.bars[n];
      if (bar.finish <= stage.span.from || bar.begin >= stage.span.to) continue;
      const y = n * lane - this.top;
      const left = stage.left + (bar.begin - stage.span.from) * scale;
      line.add(lane < 1 ? Math.floor(y) : y, lookOf(bar.slot).colour, left, left + Math.max((bar.finish - bar.begin) * scale, 0.6));
    }
    line.flush();
  }

  /** @param {any} g @param {number} width */
  #drawChosen(g, width) {
    if (this.chosen < 0) return;
    const y = this.chosen * this.lane - this.top;
    if (y + this.lane < 0 || y > this.room) return;
    g.strokeStyle = palette().focus;
    g.lineWidth = 2;
    g.strokeRect(this.stage.left - 1, y + 0.5, width - this.stage.left, Math.max(this.lane - 1, 2));
  }

  /** How far the list is scrolled. @param {any} g @param {number} width */
  #drawScroll(g, width) {
    const whole = this.bars.length * this.lane;
    if (whole <= this.room) return;
    g.fillStyle = palette().border;
    g.fillRect(width - 5, (this.top / whole) * this.room, 4, Math.max((this.room / whole) * this.room, 14));
  }
}

/** Bars of one line of pixels: those of a colour that touch are one. Many lanes share a line where they are lower than it. */
class ThinLine {
  /** @param {any} g @param {number} high pixels */
  constructor(g, high) {
    this.g = g;
    this.high = high;
    this.y = NaN;
    /** @type {Map<string, [number, number]>} left and right end by colour */
    this.open = new Map();
  }

  /** @param {number} y @param {string} colour @param {number} left @param {number} right */
  add(y, colour, left, right) {
    if (y !== this.y) this.flush();
    this.y = y;
    const there = this.open.get(colour);
    if (there && left <= there[1] + 1 && right >= there[0] - 1) {
      there[0] = Math.min(there[0], left);
      there[1] = Math.max(there[1], right);
      return;
    }
    if (there) this.#draw(colour, there);
    this.open.set(colour, [left, right]);
  }

  flush() {
    for (const [colour, ends] of this.open) this.#draw(colour, ends);
    this.open.clear();
  }

  /** @param {string} colour @param {[number, number]} ends */
  #draw(colour, [left, right]) {
    this.g.fillStyle = colour;
    this.g.fillRect(left, this.y, right - left, this.high);
  }
}

/**
 * The window of a request: a thin line, with a tick at the deadline.
 * @param {any} g @param {Bar} bar @param {(at: number) => number} x @param {number} y @param {number} lane
 */
export function drawWindow(g, bar, x, y, lane) {
  if (bar.from === null || bar.until === null) return;
  g.strokeStyle = palette().window;
  g.lineWidth = 1;
  const middle = Math.round(y + lane / 2) + 0.5;
  const end = Math.round(x(bar.until)) - 0.5;
  g.beginPath();
  g.moveTo(x(bar.from), middle);
  g.lineTo(end, middle);
  g.moveTo(end, y + 3);
  g.lineTo(end, y + lane - 3);
  g.stroke();
}

/**
 * What a reservation holds: as high as it is wide. Its state is a shape: degraded hatched, failed or
 * cancelled crossed out.
 * @param {any} g @param {Bar} bar @param {(at: number) => number} x @param {number} y @param {number} lane
 */
export function drawHeld(g, bar, x, y, lane) {
  const colours = palette();
  const look = lookOf(bar.slot);
  const floor = y + lane - 2;
  const rows = bar.rows.length ? bar.rows : [bar.begin, bar.finish, bar.peak];
  for (let k = 0; k < rows.length; k += 3) {
    const left = x(rows[k]);
    const wide = Math.max(x(rows[k + 1]) - left, 1);
    const high = Math.max((lane - 4) * (rows[k + 2] / bar.peak), 2);
    g.fillStyle = look.colour;
    g.fillRect(left, floor - high, wide, high);
    if (look.hatched) hatchRect(g, left, floor - high, wide, high, colours.panel, 8);
    if (bar.state === "degraded") hatchRect(g, left, floor - high, wide, high, colours.ink, 5);
  }
  if (bar.state === "failed" || bar.state === "cancelled") {
    g.strokeStyle = colours.bad;
    g.lineWidth = 1.5;
    g.beginPath();
    g.moveTo(x(bar.begin), y + 3);
    g.lineTo(x(bar.finish), floor);
    g.moveTo(x(bar.begin), floor);
    g.lineTo(x(bar.finish), y + 3);
    g.stroke();
  }
}
