// A strip of time: an axis above lanes that all show the same hours, whatever their width.
import { ticks } from "./axis.js";
import { make } from "../core/dom.js";
import { stretched, svg, tenantClass } from "../core/svg.js";

const WIDE = 1000;
const TALL = 28;

export class TimeStrip {
  /**
   * @param {number} from seconds from the origin @param {number} to
   * @param {import("../core/times.js").Times} times
   */
  constructor(from, to, times) {
    this.from = from;
    this.to = to;
    this.times = times;
    this.axis = make("div", { class: "strip-axis", "aria-hidden": "true" });
    new ResizeObserver(() => this.#label()).observe(this.axis);
  }

  /** Where an instant lies, between 0 and 1. @param {number} at */
  part(at) {
    return (at - this.from) / (this.to - this.from);
  }

  #label() {
    const width = this.axis.clientWidth;
    if (!width) return;
    let free = 0; // where the text before ends
    const shown = [];
    for (const tick of ticks(this.from, this.to, width, this.times)) {
      const left = this.part(tick.at) * width;
      const long = 7 * tick.text.length + 8;
      if (left < free || left + long > width) continue;
      const text = make("span", { text: tick.text });
      text.style.left = `${(100 * this.part(tick.at)).toFixed(2)}%`;
      shown.push(text);
      free = left + long;
    }
    this.axis.replaceChildren(...shown);
  }

  /**
   * One lane: what was held above (hollow), what is held below (filled).
   * @param {[number, number, number][]} before start, end, height between 0 and 1
   * @param {[number, number, number][]} after
   * @param {number|null|undefined} slot of the tenant
   */
  lane(before, after, slot) {
    const half = TALL / 2;
    return stretched(WIDE, TALL,
      svg("path", { d: `M0 ${TALL - 0.5}H${WIDE}`, class: "ground" }),
      svg("path", { d: this.#outline(before, half - 2, half - 3), class: "before" }),
      svg("path", { d: this.#outline(after, TALL - 1, half - 3), class: tenantClass(slot) }));
  }

  /** @param {[number, number, number][]} rows @param {number} ground @param {number} tall */
  #outline(rows, ground, tall) {
    let path = "";
    let last = NaN;
    for (const [start, end, height] of rows) {
      const [x, right] = [WIDE * this.part(start), Math.max(WIDE * this.part(end), WIDE * this.part(start) + 2)];
      const top = ground - tall * height;
      path += Math.abs(start - last) < 1e-6 ? `V${top.toFixed(1)}` : `${path ? `V${ground}Z` : ""}M${x.toFixed(1)} ${ground}V${top.toFixed(1)}`;
      path += `H${right.toFixed(1)}`;
      last = end;
    }
    return path ? `${path}V${ground}Z` : "";
  }
}
