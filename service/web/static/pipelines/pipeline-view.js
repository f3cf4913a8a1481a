// One pipeline: its runs by stage, one run against its promise, and what its stages wrote.
import { call, read, withQuery } from "../core/api.js";
import { confirmed } from "../core/dialog.js";
import { $, facts, make } from "../core/dom.js";
import { counted, duration } from "../core/numbers.js";
import { attempt, say } from "../core/say.js";
import { keepAddress, readAddress } from "../core/url.js";
import { markOf, OVER, timeline } from "./timeline.js";

/** How many runs are shown, and how many bytes of each stream. */
const RUNS = 30;
const BYTES = 65_536;
const DEFAULTS = { run: "", stage: "" };

const SIGNS = { done: "✓", late: "!", failed: "✕", running: "▶", waiting: "·", skipped: "–" };

export class PipelineView {
  /** @param {string} id @param {import("../core/shell.js").Shell} shell */
  constructor(id, { user, times }) {
    this.id = id;
    this.user = user;
    this.times = times;
    this.path = `/v1/pipelines/${encodeURIComponent(id)}`;
    /** @type {any[]} the oldest first */
    this.runs = [];
    /** The run that is shown, and the stage whose logs are; empty: the newest, and what matters most in it. */
    this.state = readAddress(DEFAULTS);
    this.again = make("button", { type: "button", class: "end", text: "Run again", hidden: true, on: { click: () => this.runAgain() } });
    this.stop = make("button", { type: "button", class: "danger", text: "Cancel", hidden: true, on: { click: () => this.cancel() } });
    $("one").replaceChildren(
      make("p", {}, make("a", { href: "/ui/pipelines", text: "All pipelines" })),
      make("div", { class: "bar" }, make("h1", { text: id }), make("span", { id: "state" }), this.again, this.stop),
      make("p", { id: "why" }),
      make("section", { class: "panel" }, make("div", { id: "facts" })),
      make("section", { class: "panel" }, make("h2", { text: "Runs by stage" }),
        make("p", { class: "legend", "aria-hidden": "true" }, ...Object.entries(SIGNS).map(([mark, sign]) =>
          make("span", {}, make("i", { class: `cell ${mark}`, text: sign }), mark))),
        make("div", { id: "grid", class: "grid", tabindex: "0", role: "region", "aria-label": "Runs by stage" })),
      make("section", { class: "panel" }, make("h2", { id: "run" }), make("div", { id: "line" })),
      make("section", { class: "panel" }, make("h2", { id: "logs-of" }), make("div", { id: "logs" })));
    $("one").hidden = false;
    document.title = `${id} · Agenda`;
  }

  async refresh() {
    const [told, listed] = await Promise.all([read(this.path), read(withQuery(`${this.path}/runs`, { limit: RUNS }))]);
    this.told = told;
    this.runs = listed.runs.reverse();
    this.#show();
    await this.#showLogs();
  }

  /** The run that is shown. */
  get run() {
    return this.runs.find((one) => String(one.run) === this.state.run) ?? this.runs.at(-1);
  }

  /** The stage of it whose logs are shown: the chosen one, else what failed, runs, or came last. */
  get shown() {
    const stages = this.run?.stages ?? [];
    const begun = stages.filter((/** @type {any} */ one) => one.started_at);
    return stages.find((/** @type {any} */ one) => one.name === this.state.stage)
      ?? stages.find((/** @type {any} */ one) => one.state === "failed") ?? begun.at(-1) ?? stages[0];
  }

  /** @param {number} run @param {string} stage */
  async choose(run, stage) {
    this.state = { run: String(run), stage };
    keepAddress(this.state, DEFAULTS);
    this.#show();
    await attempt($("trouble"), () => this.#showLogs());
  }

  #show() {
    const { told, times, run } = this;
    const { reservation } = told;
    const mine = this.user.actsFor(reservation.tenant);
    $("state").replaceChildren(make("span", { class: `state ${reservation.state}`, text: reservation.state }));
    $("why").textContent = told.reason && `No further run starts: ${told.reason}.`;
    this.stop.hidden = !mine || !["accepted", "active", "degraded"].includes(reservation.state);
    this.again.hidden = !mine || run?.state !== "failed";
    $("facts").replaceChildren(facts([
      ["Reservation", make("a", { href: `/ui/reservations/${encodeURIComponent(this.id)}`, text: this.id })],
      ["Tenant", reservation.tenant],
      ["Runs", told.recurs ? `${counted(told.runs, "run")} so far` : "once"],
      ["Next run", told.next_at && times.ofText(told.next_at)],
      ["Deadline", told.slack === null ? null : `${times.ofText(told.deadline_at)}; slack of the tightest stage ${duration(told.slack)}`],
      ["Overlapping runs", told.recurs ? { queue: "the later one waits", skip: "the later one is left out", parallel: "run at the same time" }[/** @type {"queue"|"skip"|"parallel"} */ (told.overlap)] : null],
      ["Note", told.notes.join(" ")],
    ]));
    this.#showGrid();
    $("run").textContent = run ? `Run ${run.run}: ${run.state}${run.late ? ", late" : ""}${run.deadline_at ? `; deadline ${times.ofText(run.deadline_at)}` : ""}` : "No run has begun";
    $("line").replaceChildren(...(run ? [timeline(run, times, (stage) => this.choose(run.run, stage))] : []));
  }

  #showGrid() {
    const whole = this.runs.filter((one) => one.stages.length).at(-1);  // a run that was left out has none
    const names = (whole ?? this.told).stages.map((/** @type {any} */ one) => one.name);
    const head = make("tr", {}, make("th", { scope: "col", text: "Stage" }), ...this.runs.map((one) =>
      make("th", { scope: "col", text: String(one.run), title: one.start_at ? this.times.ofText(one.start_at) : "" })));
    const rows = names.map((/** @type {string} */ name) => make("tr", {}, make("th", { scope: "row", text: name }),
      ...this.runs.map((run) => make("td", {}, this.#cell(run, run.stages.find((/** @type {any} */ one) => one.name === name))))));
    const place = $("grid");
    const focused = document.activeElement?.getAttribute("aria-label");
    const isNew = !place.hasChildNodes();
    place.replaceChildren(make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)));
    if (focused) place.querySelector(`button[aria-label="${CSS.escape(focused)}"]`)?.focus();
    if (isNew) requestAnimationFrame(() => { place.scrollLeft = place.scrollWidth; });
  }

  /** @param {any} run @param {any} stage */
  #cell(run, stage) {
    if (!stage) return null;
    const mark = markOf(stage);
    const label = `Run ${run.run}, ${stage.name}: ${mark}`;
    const pressed = run === this.run && stage === this.shown;
    return make("button", { type: "button", class: `cell ${mark}`, text: SIGNS[mark], title: stage.reason ? `${label}: ${stage.reason}` : label, "aria-label": label, "aria-pressed": String(pressed), on: { click: () => this.choose(run.run, stage.name) } });
  }

  async #showLogs() {
    const stage = this.shown;
    $("logs-of").textContent = stage ? `What ${stage.name} wrote` : "Logs";
    if (!stage?.application) return $("logs").replaceChildren(make("p", { class: "faint", text: "Nothing yet." }));
    const found = await read(withQuery(`/v1/applications/${encodeURIComponent(stage.application)}/logs`, { limit: BYTES }));
    const parts = found.logs.map((/** @type {any} */ log) => make("div", {},
      make("h3", { text: `${log.component} ${log.index}${log.task === null ? "" : `, task ${log.task}`} on ${log.machine}, ${log.stream}${log.code === null ? "" : `, exit code ${log.code}`}` }),
      make("pre", { class: `log ${log.stream}`, tabindex: "0", text: log.text }),
      log.end < log.size ? make("p", { class: "faint", text: `The first ${counted(log.end, "byte")} of ${counted(log.size, "byte")}: agenda logs ${stage.application}` }) : null));
    const none = make("p", { class: "faint", text: found.detail || stage.reason || "It has written nothing." });
    $("logs").replaceChildren(...(parts.length ? parts : [none]));
  }

  async runAgain() {
    const { run } = this;
    await attempt($("trouble"), async () => {
      await call("POST", `${this.path}/again`, { body: { run: run.run } });
      say(`What failed of run ${run.run} is run again.`);
      await this.refresh();
    });
  }

  async cancel() {
    const text = "Its reservation is cancelled, no further run starts, and stages that run are ended.";
    if (!(await confirmed({ title: `Cancel ${this.id}?`, text, yes: "Cancel it", danger: true }))) return;
    await attempt($("trouble"), async () => {
      await call("DELETE", `/v1/reservations/${encodeURIComponent(this.id)}`);
      const stages = this.runs.flatMap((run) => run.stages);
      for (const stage of stages.filter((one) => !OVER.includes(one.state))) {
        await call("DELETE", `/v1/applications/${encodeURIComponent(stage.application)}`);
      }
      say(`${this.id} is cancelled.`);
      await this.refresh();
    });
  }
}
