// The list of applications: what waits and runs first, narrowed by state, tenant and words.
import { read, withQuery } from "../core/api.js";
import { $, make } from "../core/dom.js";
import { count, counted } from "../core/numbers.js";
import { attempt, troubleOf } from "../core/say.js";
import { PagedTable } from "../core/table.js";
import { keepAddress, readAddress } from "../core/url.js";
import { askedOf, askedWords, bullet, COUNTS, sumOf } from "./bullet.js";

const LIMIT = 200;
const OPEN = ["running", "starting", "queued", "ending"];
const DEFAULTS = { view: "", tenant: "", find: "", cursor: "" };

/** @param {string} kind @param {string|null} id */
const linkTo = (kind, id) => (id ? make("a", { href: `/ui/${kind}/${encodeURIComponent(id)}`, text: id }) : "–");

export class ApplicationList {
  /** @param {import("../core/times.js").Times} times */
  constructor(times) {
    this.state = readAddress(DEFAULTS);
    /** @type {any[]} */
    this.rows = [];
    /** @type {string[]} cursors of the pages before */
    this.before = [];
    this.table = new PagedTable({
      label: "Applications",
      rows: [],
      empty: "No application matches.",
      columns: [
        { title: "Application", of: (one) => linkTo("applications", one.id), sort: (one) => one.id },
        { title: "Tenant", of: (one) => one.tenant },
        { title: "State", of: (one) => make("span", { class: `state ${one.state}`, text: one.state }), sort: (one) => one.state },
        { title: "Components", of: (one) => bullet(sumOf(one.components)), sort: (one) => askedOf(sumOf(one.components)) },
        ...COUNTS.map((kind) => ({
          title: kind[0].toUpperCase() + kind.slice(1), number: true,
          of: (/** @type {any} */ one) => (kind === "wanted" ? askedWords(sumOf(one.components)) : count(sumOf(one.components)[kind])), sort: (/** @type {any} */ one) => sumOf(one.components)[kind],
        })),
        { title: "Reservation", of: (one) => linkTo("reservations", one.application.reservation), sort: (one) => one.application.reservation ?? "" },
        { title: "Submitted", of: (one) => times.full(one.submitted), sort: (one) => one.submitted },
        { title: "Why", of: (one) => one.reason || "–" },
      ],
    });
    $("table").append(this.table.element);
    for (const name of ["view", "tenant", "find"]) {
      $(name).value = this.state[/** @type {keyof typeof DEFAULTS} */ (name)];
      $(name).addEventListener(name === "view" ? "change" : "input", () => this.#narrow(name));
    }
    $("list").hidden = false;
  }

  /** @param {string} name */
  #narrow(name) {
    this.state = { ...this.state, [name]: $(name).value.trim() };
    if (name !== "find") {
      this.state.cursor = "";
      this.before = [];
    }
    keepAddress(this.state, DEFAULTS);
    if (name === "find") this.draw();
    else attempt($("trouble"), () => this.refresh());
  }

  async refresh() {
    const { view, tenant, cursor } = this.state;
    this.asked = (this.asked ?? 0) + 1;
    const number = this.asked;
    const states = view === "" ? OPEN : [view === "all" ? "" : view];
    const pages = await Promise.all(states.map((state) =>
      read(withQuery("/v1/applications", { state, tenant, cursor: view === "" ? "" : cursor, limit: LIMIT }))));
    if (number !== this.asked) return; // something else was asked meanwhile
    this.rows = pages.flatMap((page) => page.applications);
    const more = states.filter((_, place) => pages[place].next !== null);
    $("left-out").replaceChildren(view === "" && more.length ? make("p", { class: "note",
      text: `More are ${more.join(" and ")} than the first ${LIMIT}: they are left out. Show one state alone to see them all.` }) : "");
    this.#showPages(view === "" ? null : pages[0].next);
    this.draw();
  }

  /** @param {string|null} next */
  #showPages(next) {
    const { cursor } = this.state;
    const go = (/** @type {string} */ to) => {
      this.state.cursor = to;
      keepAddress(this.state, DEFAULTS);
      attempt($("trouble"), () => this.refresh());
    };
    const buttons = [];
    if (cursor) buttons.push(make("button", { type: "button", text: "Earlier submitted", on: { click: () => go(this.before.pop() ?? "") } }));
    if (next) buttons.push(make("button", { type: "button", text: "Later submitted", on: { click: () => { this.before.push(cursor); go(next); } } }));
    $("pages").replaceChildren(...buttons);
  }

  /** Where nothing is open: how many are over, and a button that shows them. @param {number} shown */
  async #offerOthers(shown) {
    const { view, tenant, find } = this.state;
    this.offered = (this.offered ?? 0) + 1;
    const number = this.offered;
    if (view !== "" || find || shown) return $("others").replaceChildren();
    /** @type {any} */
    let told;
    try {
      told = await read(withQuery("/v1/applications", { tenant, limit: LIMIT }));
    } catch (error) {
      if (number === this.offered) $("others").replaceChildren(troubleOf(error));
      return;
    }
    if (number !== this.offered) return; // the list is another one meanwhile
    const { applications, next } = told;
    const whose = tenant ? " of this tenant" : "";
    if (!applications.length) return $("others").replaceChildren(make("p", { class: "faint", text: `No application${whose} has been submitted.` }));
    const many = `${count(applications.length)}${next === null ? "" : " or more"}`;
    $("others").replaceChildren(make("p", { class: "note row" }, make("span", { text: `Nothing${whose} waits or runs. ${many} ended.` }),
      make("button", { type: "button", text: "Show all", on: { click: () => { $("view").value = "all"; this.#narrow("view"); } } })));
  }

  draw() {
    const find = this.state.find.toLowerCase();
    const texts = (/** @type {any} */ one) => [one.id, one.reason, one.application.reservation ?? "", one.application.name ?? ""];
    const rows = this.rows.filter((one) => texts(one).some((text) => text.toLowerCase().includes(find)));
    this.table.set(rows);
    this.#offerOthers(rows.length);
    const sum = sumOf(rows.flatMap((one) => one.components));
    $("summary").textContent = `${counted(rows.length, "application")} shown · ${count(sum.running)} of ${askedWords(sum)} components running`;
  }
}
