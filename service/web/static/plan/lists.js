// The reservations below the skyline: which are shown, in what order, as lanes or as a table.
import { read, withQuery } from "../core/api.js";
import { $, make } from "../core/dom.js";
import { count } from "../core/numbers.js";
import { attempt, say } from "../core/say.js";
import { PagedTable } from "../core/table.js";

/** @typedef {import("../chart/bars.js").Bar} Bar */

export class Lists {
  /** @param {any} parts of the page */
  constructor({ shell, span, book, gantt, shown, keep }) {
    this.shell = shell;
    this.span = span;
    this.book = book;
    this.gantt = gantt;
    this.shown = shown;
    this.keep = keep;
    /** @type {any[]|null} */
    this.refused = null;
    this.tableName = "";
    $("find").value = shown.q;
    $("order").value = shown.order;
    this.#listen();
    gantt.onchosen = (/** @type {Bar} */ bar, /** @type {number} */ place) => {
      const text = `${count(place + 1)} of ${count(gantt.bars.length)}: ${gantt.says(bar)}`;
      $("chosen").textContent = text;
      say(text);
    };
  }

  #listen() {
    let later = 0;
    $("find").addEventListener("input", () => {
      clearTimeout(later);
      later = window.setTimeout(() => this.#turn({ q: $("find").value }), this.book.isWhole ? 0 : 250);
    });
    $("order").addEventListener("change", () => this.#turn({ order: $("order").value }));
    $("fit").addEventListener("click", () => this.toggle("fit"));
    $("as-table").addEventListener("click", () => this.toggle("table"));
    $("refused").addEventListener("click", () => this.toggleRefused());
  }

  /** @param {Record<string, string>} changed */
  async #turn(changed) {
    this.keep(changed);
    if (this.book.isPart) await attempt($("trouble"), () => this.#load());
    this.arrange();
  }

  async begin() {
    await this.#load();
    if (this.shown.view === "refused") await this.#readRefused();
    this.arrange();
  }

  /** Once time stands still: reads what is missing. */
  async settle() {
    if (!this.book.covers(this.span.from, this.span.to) || !this.book.isWhole) await this.#load();
    this.arrange();
  }

  async #load() {
    const { span, shown } = this;
    const more = span.length;
    const from = Math.max(span.first, span.from - more);
    const to = Math.min(span.last, span.to + more);
    const tenant = shown.by === "tenant" && shown.layer ? shown.layer : undefined;
    if (!this.book.isPart) await this.book.load(from, to);
    if (this.book.isPart || !this.book.isWhole) {
      const wanted = { order: shown.order, words: shown.q, tenant, spread: shown.view === "fit" };
      await this.book.load(span.from, span.to, wanted);
      this.book.isPart = !this.book.isWhole || Boolean(shown.q || tenant);
    }
  }

  /** @param {string} view fit, table */
  toggle(view) {
    this.keep({ view: this.shown.view === view ? "" : view });
    this.gantt.fitsAll = this.shown.view === "fit";
    this.gantt.top = 0;
    this.arrange();
  }

  async toggleRefused() {
    this.keep({ view: this.shown.view === "refused" ? "" : "refused" });
    if (this.shown.view === "refused") await attempt($("trouble"), () => this.#readRefused());
    this.arrange();
  }

  async #readRefused() {
    const body = await read(withQuery("/v1/reservations", { state: "refused", limit: 500 }));
    this.refused = body.reservations.reverse();
  }

  /** Shows what matches, as lanes or as a table. */
  arrange() {
    const { shown, span, book, gantt } = this;
    const tenant = shown.by === "tenant" && shown.layer ? shown.layer : undefined;
    const found = book.chosen({ from: span.from, to: span.to, words: shown.q, order: shown.order, tenant });
    gantt.fitsAll = shown.view === "fit";
    gantt.set(found);
    const isTable = shown.view === "table" || shown.view === "refused";
    $("gantt").hidden = isTable;
    $("chosen").hidden = isTable;
    $("list-rows").hidden = !isTable;
    $("fit").setAttribute("aria-pressed", String(shown.view === "fit"));
    $("as-table").setAttribute("aria-pressed", String(shown.view === "table"));
    $("refused").setAttribute("aria-pressed", String(shown.view === "refused"));
    this.#countShown(found.length);
    if (shown.view === "table") this.#show("bars", () => this.#barTable(), found);
    if (shown.view === "refused") this.#show("refused", () => this.#refusedTable(), this.#refusedThatMatch());
  }

  /** @param {number} n */
  #countShown(n) {
    const { book } = this;
    const others = book.others ? `, and ${count(book.others)} of others` : "";
    $("list-count").textContent = book.isWhole
      ? `${count(n)} in this time${others}`
      : `${count(n)} of ${count(book.total)} in this time: come closer, or find${others}`;
  }

  #refusedThatMatch() {
    const text = this.shown.q.trim().toLowerCase();
    return (this.refused ?? []).filter((one) => !text || one.id.toLowerCase().includes(text) || one.tenant.toLowerCase().includes(text));
  }

  /** @param {string} name @param {() => PagedTable} made @param {any[]} rows */
  #show(name, made, rows) {
    if (this.tableName === name && this.table) return this.table.set(rows);
    this.tableName = name;
    this.table = made();
    this.table.set(rows);
    $("list-rows").replaceChildren(this.table.element);
  }

  #barTable() {
    const { times } = this.shell;
    return new PagedTable({
      label: "Reservations in the time shown",
      rows: [],
      columns: [
        { title: "id", of: (/** @type {Bar} */ bar) => linkTo(bar.id), sort: (bar) => bar.id },
        { title: "tenant", of: (bar) => bar.tenant },
        { title: "state", of: (bar) => stateOf(bar.state), sort: (bar) => bar.state },
        { title: "begin", of: (bar) => times.full(bar.begin), sort: (bar) => bar.begin },
        { title: "end", of: (bar) => (bar.isEndless ? "no end" : times.full(bar.finish)), sort: (bar) => bar.finish },
        { title: "window", of: (bar) => (bar.until === null ? "" : times.span(bar.from, bar.until)), sort: (bar) => bar.until },
        { title: "most held", of: (bar) => count(bar.peak), sort: (bar) => bar.peak, number: true },
      ],
    });
  }

  #refusedTable() {
    const { times } = this.shell;
    return new PagedTable({
      label: "Requests that were refused",
      rows: [],
      empty: "Nothing was refused.",
      columns: [
        { title: "id", of: (one) => linkTo(one.id), sort: (one) => one.id },
        { title: "tenant", of: (one) => one.tenant },
        { title: "asked", of: (one) => times.ofText(one.submitted_at), sort: (one) => one.submitted },
        { title: "why", of: (one) => one.detail },
        { title: "offers", of: (one) => one.offers.length, number: true },
      ],
    });
  }
}

/** @param {string} id */
export const linkTo = (id) => make("a", { href: `/ui/reservations/${encodeURIComponent(id)}`, text: id });

/** @param {string} state */
export const stateOf = (state) => make("span", { class: `state ${state}`, text: state });
