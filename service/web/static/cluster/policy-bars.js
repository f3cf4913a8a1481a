// Policies over time: what is reserved against each limit, from now to the horizon.
import { palette } from "../chart/palette.js";
import { Span } from "../chart/span.js";
import { BELOW, Stage } from "../chart/stage.js";
import { drawTimes, fitted, FONT } from "../chart/strokes.js";
import { read, withQuery } from "../core/api.js";
import { amount, percent } from "../core/numbers.js";
import { accountOf } from "./policy-table.js";

const LANE = 52;
const LABEL = 17;
const BUCKETS = 120;
/** Most policies whose use over time is read: one call each. */
const MOST = 24;

export class PolicyBars {
  /** @param {HTMLElement} host @param {import("../core/times.js").Times} times @param {number} step of the Plan, seconds */
  constructor(host, times, step) {
    this.host = host;
    this.times = times;
    this.step = step;
    /** @type {any[]} */
    this.lanes = [];
    this.series = { from: 0, to: 1, step: 1 };
    this.span = new Span(0, 1, 1);
    this.stage = new Stage(host, this.span, {
      draw: (g, width) => this.draw(g, width),
      hover: (x, y) => { host.title = x < 0 ? "" : this.#says(x, y); },
    });
    this.stage.left = 10;
  }

  /** Reads the use over time of those with a limit. @param {any[]} policies of /v1/policies @param {number} horizon seconds from the origin */
  async refresh(policies, horizon) {
    const now = this.times.present();
    const step = `${this.step * Math.max(1, Math.ceil((horizon - now) / BUCKETS / this.step))}s`;
    const known = policies.filter((one) => one.use.length).slice(0, MOST);
    const found = await Promise.all(known.map((one) => read(withQuery(`/v1/policies/${encodeURIComponent(one.name)}/use`, { step }))));
    this.lanes = found.flatMap((one) => one.use.map((/** @type {any} */ use) => ({ name: one.name, ...use })));
    this.host.hidden = !this.lanes.length;
    if (!found.length) return;
    this.series = found[0];
    this.span.bound(this.series.from, this.series.to);
    this.span.whole();
    this.host.style.height = `${this.lanes.length * LANE + BELOW + 4}px`;
    this.host.setAttribute("aria-label", `Use of policies over time; the table above has now and peak. ${this.lanes.map((one) => this.#words(one)).join(". ")}`);
    this.stage.measure();
  }

  /** @param {any} lane */
  #words(lane) {
    const peak = Math.max(0, ...lane.used);
    const measure = lane.window ? `, average over ${lane.window}` : "";
    const own = lane.guarantee === null ? "" : `, ${amount(lane.guarantee, lane.unit)} of them guaranteed, the rest borrowed`;
    return `${lane.name}, ${accountOf(lane)}: at most ${amount(peak, lane.unit)} of ${amount(lane.limit, lane.unit)} ${lane.resource ?? ""}${measure}${own}`;
  }

  /** @param {number} x @param {number} y */
  #says(x, y) {
    const lane = this.lanes[Math.floor(y / LANE)];
    const bucket = Math.floor((this.stage.at(x) - this.series.from) / this.series.step);
    if (!lane || !(bucket in lane.used)) return "";
    const at = this.series.from + bucket * this.series.step;
    return `${lane.name}, ${accountOf(lane)}, ${this.times.full(at)}: ${amount(lane.used[bucket], lane.unit)} of ${amount(lane.limits[bucket], lane.unit)}${this.#borrows(lane, bucket)}${lane.applies[bucket] ? "" : " (does not apply then)"}`;
  }

  /** Of a quota that lends, what is borrowed in a bucket, or that it is too early to borrow. @param {any} lane @param {number} bucket */
  #borrows(lane, bucket) {
    if (lane.guarantee === null) return "";
    const borrowed = lane.used[bucket] - lane.guarantee;
    if (borrowed > 0) return `, ${amount(borrowed, lane.unit)} borrowed`;
    return lane.limits[bucket] > lane.guarantee ? `, ${amount(lane.guarantee, lane.unit)} guaranteed` : ", its guarantee: too early to borrow";
  }

  /** @param {any} g @param {number} width */
  draw(g, width) {
    drawTimes(g, this.stage, this.times);
    const colours = palette();
    for (const [place, lane] of this.lanes.entries()) {
      const top = place * LANE;
      const [high, floor] = [LANE - LABEL - 8, top + LANE - 4];
      const most = Math.max(lane.limit, ...lane.used, 1e-9);
      this.#drawBars(g, lane, floor, high / most);
      this.#drawLimit(g, lane.limits, floor, high / most, [4, 3]);
      if (lane.guarantee !== null) this.#drawLimit(g, lane.limits.map(() => lane.guarantee), floor, high / most, [1, 3]);
      g.font = FONT;
      g.textAlign = "right";
      g.textBaseline = "middle";
      g.fillStyle = colours.faint;
      const peak = Math.max(0, ...lane.used);
      const share = percent(peak, lane.limit);
      const words = width < 640 ? share : `peak ${amount(peak, lane.unit)} of ${amount(lane.limit, lane.unit)}, ${share}`;
      g.fillText(words, width - 8, top + LABEL / 2 + 3);
      g.textAlign = "left";
      g.fillStyle = colours.ink;
      const name = `${lane.name}: ${accountOf(lane)}, ${lane.resource ?? "reservations"}${lane.window ? `, average over ${lane.window}` : ""}`;
      g.fillText(fitted(g, name, width - this.stage.left - g.measureText(words).width - 24), this.stage.left, top + LABEL / 2 + 3);
      g.fillStyle = colours.line;
      g.fillRect(0, top + LANE - 1, width, 1);
    }
  }

  /** A dashed line at the limit of each bucket. @param {any} g @param {number[]} limits @param {number} floor @param {number} scale pixels a unit @param {number[]} dash */
  #drawLimit(g, limits, floor, scale, dash) {
    const { from, step } = this.series;
    g.strokeStyle = palette().ink;
    g.lineWidth = 1;
    g.setLineDash(dash);
    g.beginPath();
    limits.forEach((limit, n) => {
      const y = Math.round(floor - limit * scale) + 0.5;
      if (n) g.lineTo(this.stage.x(from + n * step), y);
      else g.moveTo(this.stage.left, y);
      g.lineTo(this.stage.x(from + (n + 1) * step), y);
    });
    g.stroke();
    g.setLineDash([]);
  }

  /** A bar a bucket: over the limit red, where the limit does not apply pale. @param {any} g @param {any} lane @param {number} floor @param {number} scale pixels a unit */
  #drawBars(g, lane, floor, scale) {
    const colours = palette();
    const { from, step } = this.series;
    lane.used.forEach((/** @type {number} */ used, /** @type {number} */ n) => {
      const [left, right] = [this.stage.x(from + n * step), this.stage.x(from + (n + 1) * step)];
      g.fillStyle = used > lane.limits[n] && lane.applies[n] ? colours.bad : colours.accent;
      g.globalAlpha = lane.applies[n] ? 0.75 : 0.3;
      g.fillRect(left, floor - used * scale, Math.max(right - left, 0.5), used * scale);
    });
    g.globalAlpha = 1;
  }
}
