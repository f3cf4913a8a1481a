// What a comparison found: figures side by side, values under the bound, skylines, who differs.
import { slotsFor } from "../chart/slots.js";
import { make } from "../core/dom.js";
import { count, counted, decimal, duration, percent } from "../core/numbers.js";
import { stretched, svg } from "../core/svg.js";
import { PagedTable } from "../core/table.js";
import { linkTo } from "../improve/diff-view.js";
import { AGENTS } from "./agents.js";
import { bestBound, differing, figuresOf, tally } from "./figures.js";
import { skylineLegend, skylinePictures } from "./skylines.js";

/** Tells "filtered" when another resource or text is chosen. @fires filtered */
export class ResultView extends EventTarget {
  /**
   * @param {import("../core/times.js").Times} times
   * @param {{name: string, slot: number}[]} tenants that the Plan knows
   * @param {{resource: string, find: string}} shown
   */
  constructor(times, tenants, shown) {
    super();
    this.times = times;
    this.tenants = tenants;
    this.shown = shown;
    this.onPlan = true;
    /** @type {any} */
    this.result = null;
    this.find = make("input", { type: "search", "aria-label": "Find an id or tenant", placeholder: "id or tenant", value: shown.find });
    this.find.addEventListener("input", () => this.#sought());
    this.pictures = make("div");
    this.element = make("div");
    times.addEventListener("change", () => this.#draw());
  }

  /** @param {any} result @param {boolean} onPlan whether the ids are those of the Plan */
  show(result, onPlan) {
    this.result = result;
    this.onPlan = onPlan;
    const rows = figuresOf(result);
    this.element.replaceChildren(
      make("section", { class: "panel" },
        make("h2", { text: `${counted(result.requests, "request")}, ${onPlan ? "as it stands, one by one, and with hindsight" : "planned with all of them known"}` }),
        onPlan ? make("p", { class: "faint", text: BASES }) : null,
        this.#values(rows), figuresTable(rows, result.baseline).element, boundNote(result)),
      ...(result.skylines ? [make("section", { class: "panel" }, this.#bar(), this.pictures)] : []),
      this.#differences());
    this.#draw();
  }

  /** Values as bars on one scale, with the bound as a line. @param {import("./figures.js").AgentFigures[]} rows */
  #values(rows) {
    const best = bestBound(this.result);
    const most = Math.max(best?.bound ?? 0, ...rows.map((row) => row.metrics?.value ?? 0), 1e-9);
    return make("div", { class: "values" }, ...rows.filter((row) => row.metrics).flatMap((row) => [
      make("span", { text: row.agent }),
      make("div", { class: "value-bar" }, stretched(1000, 20,
        svg("rect", { x: 0, y: 3, width: (1000 * row.metrics.value) / most, height: 14, class: "amount" }),
        ...(best ? [svg("path", { d: `M${(1000 * best.bound) / most} 0V20`, class: "bound" })] : []))),
      make("span", { class: "number", text: decimal(Math.round(row.metrics.value)) })]));
  }

  #bar() {
    const { skylines } = this.result;
    const names = Object.keys(skylines.resources);
    if (!names.includes(this.shown.resource)) this.shown.resource = names[0];
    return make("div", { class: "bar" }, make("h2", { text: "What each Plan holds" }),
      make("fieldset", { role: "radiogroup", "aria-label": "Resource" }, ...names.map((name) => {
        const radio = make("input", { type: "radio", name: "resource", value: name, checked: name === this.shown.resource });
        radio.addEventListener("change", () => {
          this.shown.resource = name;
          this.#draw();
          this.dispatchEvent(new Event("filtered"));
        });
        return make("label", {}, radio, name);
      })),
      skylineLegend(skylines, slotsFor(this.tenants, skylines.tenants)));
  }

  #draw() {
    const { skylines } = this.result ?? {};
    if (!skylines || !this.shown.resource) return;
    const slots = slotsFor(this.tenants, skylines.tenants);
    this.pictures.replaceChildren(
      skylinePictures(skylines, this.shown.resource, slots, this.times),
      make("details", {}, make("summary", { text: "As table" }), this.#skylineTable().element));
  }

  #skylineTable() {
    const { skylines } = this.result;
    const { resource } = this.shown;
    const offset = (Date.parse(skylines.origin) - this.times.originMs) / 1000;
    const agents = Object.keys(skylines.agents);
    const { capacity, unit } = skylines.resources[resource];
    return new PagedTable({
      label: `${resource} held over time, ${unit}`,
      rows: capacity.map((/** @type {number} */ whole, /** @type {number} */ n) => ({ n, whole })),
      size: 24,
      columns: [
        { title: "From", of: (row) => this.times.full(skylines.from + row.n * skylines.step + offset), sort: (row) => row.n },
        ...agents.map((agent) => ({
          title: agent, number: true,
          of: (/** @type {any} */ row) => decimal(Math.round(totalAt(skylines.agents[agent][resource], row.n) * 10) / 10),
          sort: (/** @type {any} */ row) => totalAt(skylines.agents[agent][resource], row.n),
        })),
        { title: "Capacity", of: (row) => decimal(row.whole), sort: (row) => row.whole, number: true },
      ],
    });
  }

  #sought() {
    this.shown.find = this.find.value;
    this.differing?.set(differing(this.result.disagreements, this.shown.find));
    this.dispatchEvent(new Event("filtered"));
  }

  #differences() {
    const { agents, disagreements } = this.result;
    const names = agents.map((/** @type {any} */ one) => one.agent);
    if (!disagreements.length) {
      return make("section", { class: "panel" }, make("h2", { text: "Who differs" }), make("p", { text: "All agents take in and refuse the same requests." }));
    }
    this.differing = new PagedTable({
      label: "Requests that agents answer differently",
      rows: differing(disagreements, this.shown.find),
      size: 25,
      columns: [
        { title: "Request", of: (row) => (this.onPlan ? linkTo(row.id) : row.id), sort: (row) => row.id },
        { title: "Tenant", of: (row) => row.tenant },
        { title: "Weight", of: (row) => decimal(row.weight), sort: (row) => row.weight, number: true },
        ...names.map((/** @type {string} */ name, /** @type {number} */ n) => ({ title: name, of: (/** @type {any} */ row) => answerOf(row.answers[n]), sort: (/** @type {any} */ row) => row.answers[n] ?? "" })),
      ],
    });
    return make("section", { class: "panel" },
      make("div", { class: "bar" }, make("h2", { text: `Who differs: ${counted(disagreements.length, "request")}` }), this.find),
      make("p", { class: "faint", text: tally(disagreements, names).map((one) => `${one.agent} takes in ${count(one.taken)}${one.alone ? ` (${count(one.alone)} alone)` : ""}`).join(" · ") }),
      this.differing.element);
  }
}

/** @param {number[][]} layers @param {number} n */
const totalAt = (layers, n) => layers.reduce((sum, layer) => sum + layer[n], 0);

/** @param {string|null} answer */
const answerOf = (answer) => make("span", { class: `state ${answer === "accepted" ? "accepted" : answer ? "refused" : ""}`, text: answer ?? "–" });

const BASES = "As it stands: what the Plan holds, with the bound of the Plan page. By arrival: each agent answers the requests one by one, "
  + "as this server does. The other rows have hindsight: they know all requests before they place the first, so no server could have done it.";

/** @param {import("./figures.js").AgentFigures[]} rows @param {string} baseline */
function figuresTable(rows, baseline) {
  /** @param {(metrics: any) => string|number} show */
  const of = (show) => (/** @type {any} */ row) => (row.metrics ? show(row.metrics) : "–");
  /** @param {string} name */
  const by = (name) => (/** @type {any} */ row) => row.metrics?.[name] ?? -1;
  const onMachines = rows.some((row) => typeof row.metrics?.machine_loss === "number");
  return new PagedTable({
    label: "Agents side by side",
    rows,
    columns: [
      { title: "Agent", of: (row) => make("b", { text: row.agent }), sort: (row) => row.agent },
      { title: "Value", of: of((m) => decimal(Math.round(m.value * 10) / 10)), sort: by("value"), number: true },
      { title: `To ${baseline}`, of: (row) => (row.relative === null ? "–" : percent(row.relative)), sort: (row) => row.relative ?? -1, number: true },
      { title: "Core-hours", of: (row) => (row.work ? decimal(Math.round(row.work.hours.cpu ?? 0)) : "–"), sort: (row) => row.work?.hours.cpu ?? -1, number: true },
      { title: "Cores used", of: (row) => (row.work ? percent(row.work.utilisation.cpu ?? 0) : "–"), sort: (row) => row.work?.utilisation.cpu ?? -1, number: true },
      { title: "95 % begin within", of: (row) => (typeof row.work?.wait_p95_s === "number" ? duration(row.work.wait_p95_s) : "–"), sort: (row) => row.work?.wait_p95_s ?? -1, number: true },
      { title: "95 % late by", of: (row) => (typeof row.work?.late_p95_s === "number" ? (row.work.late_p95_s < 0 ? "-" : "") + duration(Math.abs(row.work.late_p95_s)) : "–"), sort: (row) => row.work?.late_p95_s ?? -1e12, number: true },
      { title: "Value accepted", of: of((m) => (m.acceptance === null ? "–" : percent(m.acceptance))), sort: by("acceptance"), number: true },
      { title: "Accepted", of: of((m) => `${count(m.accepted)} of ${count(m.requests)}`), sort: by("accepted"), number: true },
      { title: "Bound", of: of((m) => (m.bound === null ? "–" : decimal(Math.round(m.bound)))), sort: by("bound"), number: true },
      { title: "Gap", of: (row) => (row.gap === null ? "–" : percent(row.gap)), sort: (row) => row.gap ?? 9, number: true },
      ...(onMachines ? [{ title: "Lost to machines", of: of((m) => percent(m.machine_loss ?? 0)), sort: by("machine_loss"), number: true }] : []),
      { title: "Falls", of: of((m) => count(m.falls)), sort: by("falls"), number: true },
      { title: "Took", of: of((m) => duration(m.runtime_ms / 1000)), sort: by("runtime_ms"), number: true },
      { title: "Ended", of: (row) => make("span", { title: row.detail, text: row.status }), sort: (row) => row.status },
      { title: "Differs in", of: (row) => (row.differences ? count(row.differences.requests.length) : "–"), sort: (row) => row.differences?.requests.length ?? -1, number: true },
    ],
  });
}

/** Solvers prove a bound by their search; beside the plans of others stands a quick one. @param {any} result */
function boundNote(result) {
  const best = bestBound(result);
  if (!best) return null;
  const isProven = AGENTS.some((one) => one.solves && one.name === best.agent);
  const by = isProven ? `: ${best.agent} proves it` : ", by amounts and prices alone; exact, hybrid and milp can prove less";
  return make("p", { class: "faint", text: `No Plan of these requests is worth more than ${decimal(Math.round(best.bound))}${by}. Gaps are to that bound.` });
}
