// A table that shows a page of its rows at a time, and sorts by a column.
import { make } from "./dom.js";
import { count } from "./numbers.js";

const FOCUSABLE = "a[href], button:not(:disabled), input, select, [tabindex='0']";

/** By what an element is found again once it is made anew. @param {Element} element */
const nameOf = (element) => `${element.tagName} ${element.getAttribute("aria-label") ?? element.textContent}`;

/**
 * @typedef {object} Column
 * @property {string} title
 * @property {(row: any) => string|number|Node|null|undefined} of what a cell shows
 * @property {(row: any) => string|number} [sort] by what rows are sorted; the cell's text else
 * @property {boolean} [number] set to the right, in figures of one width
 */

/**
 * @typedef {object} TableSettings
 * @property {string} label how it is called
 * @property {Column[]} columns
 * @property {any[]} rows
 * @property {number} [size] rows of a page
 * @property {string} [empty] shown where there is no row
 * @property {(row: any) => string|null} [mark] a class for a row
 */

export class PagedTable {
  /** @param {TableSettings} settings */
  constructor(settings) {
    this.settings = { size: 50, empty: "Nothing to show.", ...settings };
    this.rows = settings.rows;
    this.page = 0;
    /** @type {{column: Column, up: boolean}|null} */
    this.order = null;
    this.element = make("div", { class: "table" });
    this.show();
  }

  /** Shows other rows, and stays on its page where there is one. @param {any[]} rows */
  set(rows) {
    this.rows = rows;
    this.show();
  }

  get pages() {
    return Math.max(1, Math.ceil(this.rows.length / this.settings.size));
  }

  /** @param {Column} column */
  sortBy(column) {
    this.order = { column, up: this.order?.column === column ? !this.order.up : true };
    this.page = 0;
    this.show();
    const place = this.settings.columns.indexOf(column);
    /** @type {HTMLElement|undefined} */ (this.element.querySelectorAll("th button")[place])?.focus();
  }

  #sorted() {
    if (!this.order) return this.rows;
    const { column, up } = this.order;
    const value = column.sort ?? ((row) => /** @type {any} */ (column.of(row)) ?? "");
    const sign = up ? 1 : -1;
    return [...this.rows].sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      return sign * (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y)));
    });
  }

  show() {
    const { columns, size, label, empty, mark } = this.settings;
    this.page = Math.min(this.page, this.pages - 1);
    const rows = this.#sorted().slice(this.page * size, (this.page + 1) * size);
    const head = make("tr", {}, ...columns.map((column) => {
      const sorted = this.order?.column === column ? (this.order.up ? "ascending" : "descending") : false;
      return make("th", { scope: "col", class: column.number ? "number" : false, "aria-sort": sorted },
        make("button", { type: "button", text: column.title, on: { click: () => this.sortBy(column) } }));
    }));
    const body = rows.map((row) => make("tr", { class: mark?.(row) ?? false }, ...columns.map((column) => {
      const shown = column.of(row) ?? "–";
      const kind = [column.number && "number", shown === "–" && "none"].filter(Boolean).join(" ");
      return make("td", { class: kind || false, "data-name": column.title }, shown instanceof Node ? shown : String(shown));
    })));
    this.#replace([
      make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
        make("table", {}, make("caption", { class: "unseen", text: label }), make("thead", {}, head), make("tbody", {}, ...body))),
      this.rows.length ? this.#pager() : make("p", { class: "faint", text: empty })]);
  }

  /**
   * Shows other parts; what had the focus has it again, and what was scrolled to stays in view.
   * @param {(Element|string)[]} parts
   */
  #replace(parts) {
    const before = [...this.element.querySelectorAll(FOCUSABLE)];
    const place = before.indexOf(/** @type {Element} */ (document.activeElement));
    const name = place < 0 ? "" : nameOf(before[place]);
    const left = this.element.querySelector(".scroll")?.scrollLeft ?? 0;
    this.element.replaceChildren(...parts);
    if (left) /** @type {Element} */ (this.element.querySelector(".scroll")).scrollLeft = left;
    if (place < 0) return;
    const after = /** @type {HTMLElement[]} */ ([...this.element.querySelectorAll(FOCUSABLE)]);
    const same = after.filter((one) => nameOf(one) === name);
    (same.length === 1 ? same[0] : same.find((one) => after.indexOf(one) === place) ?? after[place])?.focus({ preventScroll: true });
  }

  #pager() {
    if (this.pages === 1) return "";
    /** @param {string} text @param {number} page */
    const step = (text, page) => make("button", {
      type: "button", text, disabled: page < 0 || page >= this.pages,
      on: { click: () => { this.page = page; this.show(); } },
    });
    const first = this.page * this.settings.size;
    const last = Math.min(first + this.settings.size, this.rows.length);
    return make("div", { class: "row pager" },
      step("Before", this.page - 1),
      make("span", { text: `${count(first + 1)}–${count(last)} of ${count(this.rows.length)}` }),
      step("Next", this.page + 1));
  }
}
