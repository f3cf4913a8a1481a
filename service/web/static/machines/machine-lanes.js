// Machines over time: a lane for each, by groups that fold; slots by tenant, outages, and what runs.
import { lookOf, palette } from "../chart/palette.js";
import { BELOW, Stage } from "../chart/stage.js";
import { drawNow, drawTimes, fitted, FONT, hatchRect } from "../chart/strokes.js";
import { counted, percent } from "../core/numbers.js";

const LANE = 20;
const HEAD = 24;
/** A group of more machines is folded at first. */
const MOST_OPEN = 40;
/** Pixels; of more lanes the picture scrolls by itself. */
const MOST_HIGH = 1600;

/**
 * @typedef {object} Line a lane, or the header of a group
 * @property {number} top
 * @property {number} height
 * @property {string} group
 * @property {any} [lane] null for a header
 */

export class MachineLanes {
  /**
   * @param {HTMLElement} host
   * @param {import("../chart/span.js").Span} span
   * @param {import("../core/times.js").Times} times
   * @param {(name: string) => void} choose
   */
  constructor(host, span, times, choose) {
    this.host = host;
    this.span = span;
    this.times = times;
    /** @type {any[]} */
    this.lanes = [];
    /** @type {Map<string, boolean>} groups that somebody folded or opened */
    this.folded = new Map();
    /** @type {Line[]} */
    this.lines = [];
    this.total = 0;
    this.top = 0;
    this.chosen = "";
    this.stage = new Stage(host, span, {
      draw: (g, width, height) => this.draw(g, width, height),
      press: (_, y) => {
        const line = this.#at(y);
        if (line?.lane) choose(line.lane.name);
        else if (line) this.#fold(line.group);
      },
      hover: (x, y) => { host.title = x < 0 ? "" : this.#says(x, y); },
      scroll: (by) => this.#scroll(by),
    });
  }

  /** @param {any[]} lanes of /v1/machines/lanes */
  show(lanes) {
    this.lanes = lanes.map((lane) => ({ ...lane, slots: stacked(lane.slots) }));
    this.#arrange();
  }

  /** The tenants whose slots are shown, each with its colour; null: those that the user does not see. */
  tenants() {
    const found = new Map(this.lanes.flatMap((lane) => lane.slots.map((/** @type {any} */ one) => [one.tenant, one.slot])));
    return [...found].sort(([, a], [, b]) => (a ?? Infinity) - (b ?? Infinity));
  }

  /** @param {string} name */
  mark(name) {
    this.chosen = name;
    const line = this.lines.find((one) => one.lane?.name === name);
    if (line) this.top = Math.min(Math.max(this.top, line.top + LANE - this.#room()), line.top);
    this.stage.ask();
  }

  /** The machine below the chosen one, or above it. @param {number} by */
  beside(by) {
    const open = this.lines.filter((one) => one.lane).map((one) => one.lane.name);
    const here = open.indexOf(this.chosen);
    return here < 0 ? open[0] : open[Math.min(Math.max(here + by, 0), open.length - 1)];
  }

  /** @param {string} group */
  #isFolded(group) {
    return this.folded.get(group) ?? this.lanes.filter((one) => one.group === group).length > MOST_OPEN;
  }

  /** @param {string} group */
  #fold(group) {
    this.folded.set(group, !this.#isFolded(group));
    this.#arrange();
  }

  #arrange() {
    this.lines = [];
    let top = 0;
    for (const group of new Set(this.lanes.map((one) => one.group))) {
      this.lines.push({ top, height: HEAD, group });
      top += HEAD;
      if (this.#isFolded(group)) continue;
      for (const lane of this.lanes.filter((one) => one.group === group)) {
        this.lines.push({ top, height: LANE, group, lane });
        top += LANE;
      }
    }
    this.total = top;
    this.host.style.height = `${Math.min(Math.max(top, 60), MOST_HIGH) + BELOW + 2}px`;
    this.stage.left = innerWidth > 640 ? 112 : 84;
    this.#scroll(0);
    this.stage.measure();
  }

  #room() {
    return this.host.clientHeight - BELOW;
  }

  /** @param {number} by */
  #scroll(by) {
    const before = this.top;
    this.top = Math.max(0, Math.min(this.top + by, this.total - this.#room()));
    if (this.top === before) return false;
    this.stage.ask();
    return true;
  }

  /** @param {number} y */
  #at(y) {
    const at = y + this.top;
    return y > this.#room() ? undefined : this.lines.find((one) => at >= one.top && at < one.top + one.height);
  }

  /** What is under the pointer, in words. @param {number} x @param {number} y */
  #says(x, y) {
    const line = this.#at(y);
    if (!line) return "";
    if (!line.lane) return `${line.group}: press to ${this.#isFolded(line.group) ? "open" : "fold"}`;
    const { name, slots, outages, running } = line.lane;
    const at = this.stage.at(x);
    const inside = (/** @type {any} */ one) => at >= one.start && at < one.end;
    const parts = x < this.stage.left ? [] : [
      ...outages.filter(inside).map((/** @type {any} */ one) => `${one.kind}${one.reason ? ` (${one.reason})` : ""}, ${this.times.span(one.start, one.end)}`),
      ...slots.filter(inside).map((/** @type {any} */ one) =>
        `${one.reservation ?? "another tenant’s"}${one.tenant ? ` of ${one.tenant}` : ""}: ${percent(one.share)}, ${this.times.span(one.start, one.end)}`)];
    const runs = running.map((/** @type {any} */ one) => one.execution ?? "another tenant’s");
    if (runs.length) parts.push(`runs now: ${[...new Set(runs)].join(", ")}`);
    return [name, ...parts].join("\n");
  }

  /** @param {any} g @param {number} width @param {number} height */
  draw(g, width, height) {
    const room = height - BELOW;
    drawTimes(g, this.stage, this.times);
    g.save();
    g.beginPath();
    g.rect(0, 0, width, room);
    g.clip();
    for (const line of this.lines) {
      const y = line.top - this.top;
      if (y + line.height < 0 || y > room) continue;
      if (line.lane) this.#drawLane(g, line.lane, y, width);
      else this.#drawHead(g, line.group, y, width);
    }
    g.restore();
    drawNow(g, this.stage, this.times.present());
    if (this.total <= room) return;
    g.fillStyle = palette().border;
    g.fillRect(width - 5, (this.top / this.total) * room, 4, Math.max((room / this.total) * room, 14));
  }

  /** The header of a group: its name, how many machines it has, and how full they are over time. @param {any} g @param {string} group @param {number} y @param {number} width */
  #drawHead(g, group, y, width) {
    const colours = palette();
    const mine = this.lanes.filter((one) => one.group === group);
    g.fillStyle = colours.wash;
    g.fillRect(0, y, width, HEAD);
    g.fillStyle = colours.ink;
    g.font = `600 ${FONT}`;
    g.textAlign = "left";
    g.textBaseline = "middle";
    const isFolded = this.#isFolded(group);
    g.fillText(fitted(g, `${isFolded ? "▸" : "▾"} ${group}`, this.stage.left - 10), 6, y + HEAD / 2);
    if (isFolded) this.#drawMean(g, mine, y);
    const out = mine.filter((one) => one.outages.some((/** @type {any} */ away) => away.start <= this.times.present() && this.times.present() < away.end)).length;
    const words = `${counted(mine.length, "machine")}${out ? `, ${out} down` : ""}`;
    g.font = FONT;
    const wide = g.measureText(words).width + 10;
    g.fillStyle = colours.wash;
    g.fillRect(this.stage.left, y + 3, wide, HEAD - 6);
    g.fillStyle = colours.faint;
    g.fillText(words, this.stage.left + 5, y + HEAD / 2);
  }

  /** How much of a folded group is promised over time. @param {any} g @param {any[]} lanes @param {number} y */
  #drawMean(g, lanes, y) {
    const { stage, span } = this;
    const columns = Math.max(1, Math.floor((stage.width - stage.left) / 3));
    const sums = new Float64Array(columns);
    const column = (/** @type {number} */ at) => Math.min(Math.max(Math.floor(((at - span.from) / span.length) * columns), 0), columns);
    for (const lane of lanes) for (const slot of lane.slots) {
      for (let n = column(slot.start); n < column(slot.end); n += 1) sums[n] += slot.share;
    }
    g.fillStyle = palette().accent;
    g.globalAlpha = 0.45;
    const wide = (stage.width - stage.left) / columns;
    sums.forEach((sum, n) => {
      const high = Math.min(1, sum / lanes.length) * (HEAD - 4);
      g.fillRect(stage.left + n * wide, y + HEAD - 2 - high, wide, high);
    });
    g.globalAlpha = 1;
  }

  /** @param {any} g @param {any} lane @param {number} y @param {number} width */
  #drawLane(g, lane, y, width) {
    const colours = palette();
    const { stage } = this;
    if (lane.name === this.chosen) {
      g.fillStyle = colours.wash;
      g.fillRect(0, y, width, LANE);
    }
    g.font = FONT;
    g.textAlign = "left";
    g.textBaseline = "middle";
    g.fillStyle = colours.ink;
    const isNarrow = g.measureText(lane.name).width > stage.left - 16;
    g.fillText(isNarrow ? `…${lane.name.slice(lane.group.length)}` : lane.name, 10, y + LANE / 2);
    g.save();
    g.beginPath();
    g.rect(stage.left, y, width - stage.left, LANE);
    g.clip();
    const high = LANE - 4;
    for (const slot of lane.slots) this.#drawSlot(g, slot, y + 2, high);
    for (const one of lane.outages) {
      const [left, right] = [Math.max(stage.x(one.start), stage.left), Math.min(stage.x(one.end), width)];
      if (right <= left) continue;
      hatchRect(g, left, y + 2, right - left, high, one.kind === "loss" ? colours.bad : colours.warn, 5);
      g.strokeStyle = one.kind === "loss" ? colours.bad : colours.warn;
      g.lineWidth = 1;
      g.strokeRect(left + 0.5, y + 2.5, right - left - 1, high - 1);
    }
    const used = Math.min(1, lane.running.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one.share, 0));
    const now = stage.x(this.times.present());
    if (used && now >= stage.left) {
      g.fillStyle = colours.good;
      g.fillRect(now - 4, y + 2 + high * (1 - used), 4, high * used);
    }
    g.restore();
    g.fillStyle = colours.grid;
    g.fillRect(0, y + LANE - 1, width, 1);
  }

  /** @param {any} g @param {any} slot @param {number} y @param {number} high */
  #drawSlot(g, slot, y, high) {
    const { stage } = this;
    const [left, right] = [Math.max(stage.x(slot.start), stage.left), Math.min(stage.x(slot.end), stage.width)];
    if (right <= left) return;
    const { colour, hatched } = lookOf(slot.slot);
    const size = Math.max(1.5, slot.share * high);
    const top = y + high - Math.min(high, slot.base * high + size);
    g.fillStyle = colour;
    g.globalAlpha = hatched ? 0.45 : 0.9;
    g.fillRect(left, top, Math.max(right - left - 0.7, 0.7), size - 0.4);
    g.globalAlpha = 1;
    if (hatched) hatchRect(g, left, top, right - left, size, colour, 5);
  }
}

/**
 * Slots with the height at which each begins, so that those of one time are above each other.
 * @param {any[]} slots by start
 */
function stacked(slots) {
  /** @type {any[]} */
  let open = [];
  return slots.map((slot) => {
    open = open.filter((one) => one.end > slot.start);
    let base = 0;
    for (const one of open.sort((a, b) => a.base - b.base)) if (one.base < base + slot.share && one.base + one.share > base) base = one.base + one.share;
    const placed = { ...slot, base };
    open.push(placed);
    return placed;
  });
}
