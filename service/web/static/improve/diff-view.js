// The diff of an optimisation: what became of each request, before and after on one strip of time.
import { slotsFor } from "../chart/slots.js";
import { TimeStrip } from "../chart/strip.js";
import { make } from "../core/dom.js";
import { count, counted, decimal } from "../core/numbers.js";
import { svg, swatch } from "../core/svg.js";
import { PagedTable } from "../core/table.js";
import { barsOf, chosen, countsOf, coverOf, wordsOf } from "./diff.js";

const SHOWN = 40;

/** @typedef {import("./diff.js").Change} Change */

/** Tells "filtered" when another part is looked at. @fires filtered */
export class DiffView extends EventTarget {
  /**
   * @param {import("../core/times.js").Times} times
   * @param {{name: string, slot: number}[]} tenants that the Plan knows
   * @param {{fate: string, find: string, table: string}} shown as the address has it
   */
  constructor(times, tenants, shown) {
    super();
    this.times = times;
    this.tenants = tenants;
    /** @type {Map<string, number>} */
    this.slots = new Map();
    this.shown = shown;
    /** @type {Change[]} */
    this.changes = [];
    /** Ids that no longer fit, with why. @type {Map<string, string>} */
    this.conflicts = new Map();
    this.limit = SHOWN;
    this.fates = make("div", { class: "row", role: "group", "aria-label": "What became of requests" });
    this.find = make("input", { type: "search", "aria-label": "Find an id or tenant", placeholder: "id or tenant", value: shown.find });
    this.find.addEventListener("input", () => this.#filter({ find: this.find.value }));
    this.asTable = make("button", { type: "button", text: "As table", "aria-keyshortcuts": "b", on: { click: () => this.toggle() } });
    this.place = make("div");
    this.element = make("section", { class: "panel", "aria-label": "Diff" });
    times.addEventListener("change", () => this.#list());
  }

  toggle() {
    this.#filter({ table: this.shown.table ? "" : "1" });
  }

  /** @param {Partial<{fate: string, find: string, table: string}>} part */
  #filter(part) {
    Object.assign(this.shown, part);
    this.limit = SHOWN;
    this.#chips();
    this.#list();
    this.dispatchEvent(new Event("filtered"));
  }

  /** @param {any} diff @param {boolean} applied */
  show(diff, applied) {
    this.changes = diff.requests ?? [];
    this.slots = slotsFor(this.tenants, this.changes.map((one) => one.tenant ?? null));
    const none = make("p", { text: "No better Plan was found; the Plan is unchanged." });
    this.element.replaceChildren(
      make("div", { class: "bar" },
        make("h2", { text: applied ? "What was applied" : "What would change" }),
        make("span", { class: "faint", text: `${counted(this.changes.length, "request")} of ${count(this.changes.length + (diff.same ?? 0))}` })),
      ...(this.changes.length ? [
        make("div", { class: "bar" }, this.fates, this.find, this.asTable,
          make("span", { class: "legend-line faint end" }, key("before"), "before", key("after"), "after")),
        this.place] : [none]));
    this.#chips();
    this.#list();
  }

  /** Marks what no longer fits, in its place. @param {{id: string, detail: string}[]} conflicts */
  mark(conflicts) {
    this.limit = SHOWN;
    this.conflicts = new Map(conflicts.map((one) => [one.id, one.detail]));
    this.#list();
  }

  #chips() {
    const all = { fate: "", word: "all", count: this.changes.length };
    this.fates.replaceChildren(...[all, ...countsOf(this.changes)].map(({ fate, word, count: n }) => make("button", {
      type: "button", "aria-pressed": String(this.shown.fate === fate), text: `${count(n)} ${word}`,
      on: { click: () => { this.#filter({ fate }); this.#focusOn(fate); } },
    })));
    this.asTable.setAttribute("aria-pressed", String(Boolean(this.shown.table)));
  }

  /** @param {string} fate */
  #focusOn(fate) {
    const place = ["", ...countsOf(this.changes).map((one) => one.fate)].indexOf(fate);
    /** @type {HTMLElement|undefined} */ (this.fates.children[place])?.focus();
  }

  #list() {
    if (!this.changes.length) return;
    const rows = chosen(this.changes, this.shown);
    rows.sort((a, b) => Number(this.conflicts.has(b.id)) - Number(this.conflicts.has(a.id)));
    if (this.shown.table) this.place.replaceChildren(this.#table(rows));
    else this.place.replaceChildren(...this.#bars(rows));
  }

  /** @param {Change[]} rows */
  #table(rows) {
    const { times } = this;
    /** @param {number|null} at */
    const when = (at) => (at === null ? "–" : times.full(at));
    return new PagedTable({
      label: "What becomes of each request",
      rows,
      columns: [
        { title: "Reservation", of: (row) => linkTo(row.id), sort: (row) => row.id },
        { title: "Tenant", of: (row) => row.tenant },
        { title: "What", of: (row) => row.fate },
        { title: "Begin before", of: (row) => when(row.start[0]), sort: (row) => row.start[0] ?? -1 },
        { title: "Begin after", of: (row) => when(row.start[1]), sort: (row) => row.start[1] ?? -1 },
        { title: "End before", of: (row) => when(row.end[0]), sort: (row) => row.end[0] ?? -1 },
        { title: "End after", of: (row) => when(row.end[1]), sort: (row) => row.end[1] ?? -1 },
        { title: "Bundle-hours moved", of: (row) => decimal(Math.round(row.moved / 36) / 100), sort: (row) => row.moved, number: true },
        ...(this.conflicts.size ? [{ title: "No longer fits", of: (/** @type {Change} */ row) => this.conflicts.get(row.id) ?? "" }] : []),
      ],
    }).element;
  }

  /** @param {Change[]} rows */
  #bars(rows) {
    const cover = coverOf(rows);
    if (!cover) return [make("p", { class: "faint", text: "None of these." })];
    const strip = new TimeStrip(...cover, this.times);
    const left = rows.length - this.limit;
    const more = left > 0 ? make("button", {
      type: "button", text: `Show ${count(Math.min(left, SHOWN))} more of ${count(left)}`,
      on: { click: () => { this.limit += SHOWN; this.#list(); } },
    }) : null;
    return [
      make("div", { class: "diff-axis" }, strip.axis),
      make("ol", { class: "diff" }, ...rows.slice(0, this.limit).map((row) => this.#row(row, strip))),
      ...(more ? [more] : []),
    ];
  }

  /** @param {Change} row @param {TimeStrip} strip */
  #row(row, strip) {
    const slot = this.slots.get(row.tenant);
    const why = this.conflicts.get(row.id);
    return make("li", { class: why ? "misfit" : false },
      make("div", { class: "diff-head" }, swatch(slot), linkTo(row.id),
        make("span", { class: `state ${row.fate}`, text: row.fate })),
      make("div", { class: "diff-lane" }, strip.lane(barsOf(row, 0), barsOf(row, 1), slot),
        make("p", { class: "faint", text: wordsOf(row, this.times) }),
        why ? make("p", { class: "misfit-why", text: `No longer fits: ${this.times.inText(why)}` }) : null));
  }
}

/** @param {string} id */
export const linkTo = (id) => make("a", { href: `/ui/reservations/${encodeURIComponent(id)}`, text: id });

/** @param {"before"|"after"} kind */
const key = (kind) => svg("svg", { viewBox: "0 0 24 12", class: "bar-key", "aria-hidden": "true" },
  svg("rect", { x: 1, y: 1, width: 22, height: 10, class: kind }));
