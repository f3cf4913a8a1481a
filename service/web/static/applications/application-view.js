// One application: its state and why, its components as bars, when it may start, where it runs.
import { call, read, withQuery } from "../core/api.js";
import { confirmed } from "../core/dialog.js";
import { $, facts, make } from "../core/dom.js";
import { counted, duration } from "../core/numbers.js";
import { attempt, say } from "../core/say.js";
import { PagedTable } from "../core/table.js";
import { askedOf, fourBars, sumOf, wordsOf } from "./bullet.js";

const OVER = ["completed", "failed", "killed", "rejected"];

export class ApplicationView {
  /** @param {string} id @param {import("../core/shell.js").Shell} shell */
  constructor(id, { user, times }) {
    this.id = id;
    this.user = user;
    this.times = times;
    this.path = `/v1/applications/${encodeURIComponent(id)}`;
    /** @type {any} */
    this.told = null;
    this.places = new PagedTable({
      label: "Components and their machines",
      rows: [],
      size: 25,
      empty: "None of its components has a machine now.",
      columns: [
        { title: "Component", of: (one) => `${one.component} ${one.index}` },
        { title: "Machine", of: (one) => make("a", { href: `/ui/machines?sel=${encodeURIComponent(one.machine)}`, text: one.machine }), sort: (one) => one.machine },
        { title: "Since", of: (one) => times.full(one.since), sort: (one) => one.since },
        { title: "Covered", of: (one) => (one.covered ? "by its reservation" : "no") },
      ],
    });
    this.runs = new PagedTable({
      label: "Runs on executors",
      rows: [],
      size: 25,
      columns: [
        { title: "Component", of: (one) => `${one.component} ${one.index}` },
        { title: "Machine", of: (one) => one.machine },
        { title: "State", of: (one) => one.state },
        { title: "Began", of: (one) => (one.started_at ? times.ofText(one.started_at) : "–"), sort: (one) => one.started_at ?? "" },
        { title: "Ended", of: (one) => (one.ended_at ? times.ofText(one.ended_at) : "–"), sort: (one) => one.ended_at ?? "" },
        { title: "Exit code", number: true, of: (one) => one.code },
        { title: "Why", of: (one) => one.detail || "–" },
      ],
    });
    $("one").replaceChildren(...this.#frame());
    $("one").hidden = false;
    document.title = `${id} · Agenda`;
  }

  #frame() {
    return [
      make("p", {}, make("a", { href: "/ui/applications", text: "All applications" })),
      make("div", { class: "bar" }, make("h1", { text: this.id }), make("span", { id: "state" }),
        make("button", { id: "end", type: "button", class: "danger end", text: "End it", hidden: true, on: { click: () => this.end() } })),
      make("p", { id: "why" }),
      make("div", { class: "columns" },
        make("section", { class: "panel" }, make("h2", { text: "What it is" }), make("div", { id: "facts" })),
        make("section", { class: "panel" }, make("h2", { text: "Components" }), make("div", { id: "bars" }))),
      make("section", { class: "panel" }, make("h2", { text: "Where it runs" }), this.places.element),
      make("section", { class: "panel", id: "runs", hidden: true }, make("h2", { text: "Runs" }), this.runs.element),
    ];
  }

  async refresh() {
    const [told, estimate, assigned, runs] = await Promise.all([
      read(this.path), read(`${this.path}/estimate`),
      read(withQuery("/v1/assignments", { execution: this.id })), read(`${this.path}/runs`)]);
    this.told = told;
    this.places.set(assigned.rows);
    $("runs").hidden = runs.runs.length === 0;
    this.runs.set(runs.runs);
    this.#show(told, estimate, assigned.below);
  }

  /** @param {any} told @param {any} estimate @param {string[]} below */
  #show(told, estimate, below) {
    const { times } = this;
    const { reservation } = told.application;
    $("state").replaceChildren(make("span", { class: `state ${told.state}`, text: told.state }));
    const owed = reservation && below.includes(reservation);
    $("why").textContent = [told.reason, owed ? "Its reservation is below its entitlement now." : ""].filter(Boolean).join(" ");
    $("end").hidden = OVER.includes(told.state) || told.state === "ending" || !this.user.actsFor(told.tenant);
    const start = told.started === null ? (estimate.start === null ? "cannot be told" : times.full(estimate.start)) : null;
    $("facts").replaceChildren(facts([
      ["Name", told.application.name], ["Tenant", told.tenant], ["Queue", told.queue], ["Kind", told.application.kind],
      ["Reservation", reservation ? make("a", { href: `/ui/reservations/${encodeURIComponent(reservation)}`, text: reservation }) : "none: it takes what is left over"],
      ["Atom", told.application.atom],
      ["Submitted", times.full(told.submitted)],
      ["May start", start && `${start}: ${estimate.detail}`],
      ["Started", told.started === null ? null : times.full(told.started)],
      ["Ended", told.ended === null ? null : times.full(told.ended)],
      ["Took", told.started !== null && told.ended !== null ? duration(told.ended - told.started) : null],
    ]));
    const most = Math.max(1, ...told.components.map(askedOf));
    $("bars").replaceChildren(
      ...told.components.map((/** @type {any} */ one) => make("div", { class: "component" },
        make("h3", { text: `${one.name}${one.core ? " · core" : " · elastic"}` }), fourBars(one, most),
        one.reason ? make("p", { class: "faint", text: one.reason }) : null)),
      make("p", { class: "faint", text: `${counted(told.components.length, "kind")} of components: ${wordsOf(sumOf(told.components))}.` }));
  }

  async end() {
    const text = "Its components are stopped at the next tick. What its reservation still holds stays promised.";
    if (!(await confirmed({ title: `End ${this.id}?`, text, yes: "End it", danger: true }))) return;
    await attempt($("trouble"), async () => {
      await call("DELETE", this.path);
      say(`${this.id} is being ended.`);
      await this.refresh();
    });
  }
}
