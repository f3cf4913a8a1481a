// Value and bound of a search as a picture that grows while it works, with the same as a table.
import { make } from "../core/dom.js";
import { decimal, duration, percent } from "../core/numbers.js";
import { stretched, svg } from "../core/svg.js";
import { PagedTable } from "../core/table.js";
import { tracePicture } from "./trace.js";

const BOX = { width: 1000, height: 240 };

/** A number of a label, short. @param {number} value */
const short = (value) => new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 }).format(value);

export class TraceView {
  constructor() {
    this.lines = make("div", { class: "trace-lines" });
    this.levels = make("div", { class: "trace-levels", "aria-hidden": "true" });
    this.ticks = make("div", { class: "trace-ticks", "aria-hidden": "true" });
    this.table = new PagedTable({
      label: "Value and bound over time",
      size: 20,
      empty: "No plan has been found yet.",
      columns: [
        { title: "After", of: (point) => duration(point[0]), sort: (point) => point[0], number: true },
        { title: "Value", of: (point) => decimal(point[1]), sort: (point) => point[1], number: true },
        { title: "Bound", of: (point) => (point[2] === null ? "–" : decimal(point[2])), sort: (point) => point[2] ?? 0, number: true },
        { title: "Gap", of: (point) => gapWords(point[1], point[2]), number: true },
        { title: "Found by", of: (point) => point[3] },
      ],
      rows: [],
    });
    this.element = make("div", {},
      make("div", { class: "trace" }, this.levels, this.lines, this.ticks),
      make("p", { class: "legend-line faint" },
        key("value"), "value of the best plan", key("bound"), "upper bound: no plan is worth more"),
      make("details", {}, make("summary", { text: "As table" }), this.table.element));
  }

  /**
   * @param {import("./trace.js").Point[]} trace
   * @param {number|null} seconds that it may take
   * @param {number} elapsed
   */
  show(trace, seconds, elapsed) {
    this.table.set([...trace].reverse());
    if (!trace.length) {
      this.lines.replaceChildren(make("p", { class: "faint", text: "It reads the Plan …" }));
      return;
    }
    const picture = tracePicture(trace, seconds ?? elapsed, elapsed, BOX);
    this.lines.replaceChildren(stretched(BOX.width, BOX.height,
      ...picture.levels.map(({ y }) => svg("path", { d: `M0 ${y.toFixed(1)}H${BOX.width}`, class: "grid" })),
      ...(picture.bound ? [svg("path", { d: picture.bound, class: "bound" })] : []),
      svg("path", { d: picture.value, class: "value" })));
    this.levels.replaceChildren(...picture.levels.map(({ y, amount }) => placed(short(amount), "top", y / BOX.height)));
    this.ticks.replaceChildren(...picture.ticks.map(({ x, seconds: at }) => placed(at ? duration(at) : "0", "left", x / BOX.width)));
  }
}

/** @param {number} value @param {number|null} bound */
export function gapWords(value, bound) {
  if (bound === null || bound === undefined || !Number.isFinite(bound)) return "–";
  return percent(Math.max(0, bound - value), bound);
}

/** @param {string} text @param {"top"|"left"} side @param {number} part */
function placed(text, side, part) {
  const shown = make("span", { text });
  shown.style[side] = `${(100 * part).toFixed(2)}%`;
  return shown;
}

/** @param {string} kind */
const key = (kind) => svg("svg", { viewBox: "0 0 24 10", class: "line-key", "aria-hidden": "true" },
  svg("path", { d: "M0 5H24", class: kind }));
