// One optimisation: how far it is, what it found, and what becomes of it when it is applied.
import { call, Problem, read } from "../core/api.js";
import { confirmed } from "../core/dialog.js";
import { make } from "../core/dom.js";
import { count, counted, decimal, duration, percent } from "../core/numbers.js";
import { attempt, say, troubleOf } from "../core/say.js";
import { PagedTable } from "../core/table.js";
import { conflictsOf } from "./diff.js";
import { DiffView, linkTo } from "./diff-view.js";
import { gapWords, TraceView } from "./trace-view.js";

const RUNNING = ["running", "stopping"];
const FOUND = ["finished", "stopped", "interrupted"];
const ASK_MS = 1500;

/** What a state says of an optimisation. @type {Record<string, string>} */
const SENTENCES = {
  running: "It looks for a better Plan.",
  stopping: "It ends with the best so far.",
  finished: "It is over. Nothing has changed yet.",
  stopped: "It was stopped. What it had found can be applied.",
  interrupted: "The server ended while it worked. What it had found can be applied.",
  failed: "It failed.",
  lost: "Nothing has been heard of it.",
  applied: "It is applied: the Plan holds what it found.",
  undone: "It was applied, and undone.",
};

/** What machines do not hold of the value found: the bound is one of totals. @param {number|undefined} loss */
const lossFigures = (loss) => (loss ? [figure(percent(loss), "lost to machines")] : []);

export class JobView {
  /**
   * @param {string} id
   * @param {import("../core/shell.js").Shell} shell
   * @param {DiffView} diff
   */
  constructor(id, shell, diff) {
    this.id = id;
    this.shell = shell;
    this.diff = diff;
    /** @type {any} */
    this.job = null;
    this.timer = 0;
    this.trace = new TraceView();
    this.state = make("p", { class: "row" });
    this.figures = make("div", { class: "figures" });
    this.tools = make("div", { class: "row" });
    this.trouble = make("div");
    /** What became of the last button pressed: it stays while the rest is read anew. */
    this.told = make("div");
    this.left = make("div");
    this.element = make("div", {},
      make("section", { class: "panel", "aria-label": "How far it is" },
        make("div", { class: "bar" }, this.state, make("div", { class: "end" }, this.tools)),
        this.figures, this.trouble, this.told, this.trace.element),
      diff.element, this.left);
  }

  async open() {
    await this.refresh();
    this.shell.live.addEventListener("happened", (event) => {
      const { kind, data } = /** @type {CustomEvent} */ (event).detail;
      if (kind === "job" && data.job === this.id) this.refresh();
    });
    this.shell.times.addEventListener("change", () => this.#show());
  }

  /** Reads it anew; while it works it is asked again, also where no events come. */
  async refresh() {
    clearTimeout(this.timer);
    const was = this.job?.state;
    const job = await attempt(this.trouble, () => read(`/v1/optimizations/${encodeURIComponent(this.id)}`));
    if (job) {
      this.job = job;
      this.#show();
      if (was && was !== job.state) say(`The optimisation is ${job.state}. ${this.#sentence()}`);
    }
    clearTimeout(this.timer);
    if (!job || RUNNING.includes(job.state)) this.timer = window.setTimeout(() => this.refresh(), ASK_MS);
  }

  #sentence() {
    const { job } = this;
    if (!FOUND.includes(job.state) || !job.result) return job.reason ? `${this.shell.times.inText(sentence(job.reason))}` : SENTENCES[job.state];
    const n = job.result.diff?.requests?.length ?? 0;
    return n ? `${SENTENCES[job.state]} ${counted(n, "request")} would change.` : "It is over. Nothing better was found.";
  }

  #show() {
    const { job } = this;
    const { progress, asked } = job;
    const trace = progress.trace ?? [];
    const elapsed = progress.elapsed ?? 0;
    const of = asked.time_s ? ` of ${duration(asked.time_s)}` : "";
    this.state.replaceChildren(
      make("span", { class: `state ${job.state}`, text: job.state }),
      make("span", { text: this.#sentence() }),
      make("span", { class: "faint", text: `${duration(elapsed)}${of}, on version ${count(progress.based_on ?? 0)}` }));
    this.#showFigures(trace, progress);
    this.#showTools();
    this.trace.show(trace, RUNNING.includes(job.state) ? asked.time_s : null, elapsed);
    const ended = !RUNNING.includes(job.state) && job.result;
    this.diff.element.hidden = !ended;
    if (ended) {
      this.diff.show(job.result.diff, ["applied", "undone"].includes(job.state));
      this.left.replaceChildren(leftOut(job.result.left_out ?? [], this.shell.times));
    }
  }

  /** @param {import("./trace.js").Point[]} trace @param {any} progress */
  #showFigures(trace, progress) {
    if (!trace.length) return this.figures.replaceChildren();
    const [first, best] = [trace[0][1], progress.value];
    const more = best - first;
    const gained = more > 0 ? ` +${decimal(Math.round(more * 10) / 10)}` : "";
    this.figures.replaceChildren(
      figure(decimal(Math.round(best)), `value${gained}`),
      figure(decimal(Math.round(first)), "before"),
      figure(progress.bound === null ? "–" : decimal(Math.round(progress.bound)), "bound"),
      figure(gapWords(best, progress.bound), "gap"),
      ...lossFigures(this.job.result?.machine_loss));
    return undefined;
  }

  #showTools() {
    const { state, result } = this.job;
    const changes = result?.diff?.requests?.length ?? 0;
    const tools = [];
    if (state === "running") tools.push(this.#button("Stop", "", () => call("POST", `${this.path}/stop`)));
    if (FOUND.includes(state) && changes) {
      tools.push(this.#button("Apply", "main", () => this.#apply(false), "apply"));
      tools.push(this.#button("Apply what still fits", "", () => this.#apply(true), "apply-partial"));
    }
    if (state === "applied" && changes) tools.push(this.#button("Undo", "", () => this.#undo()));
    if (state !== "running" && state !== "stopping") tools.push(this.#button("Forget", "quiet", () => this.#forget()));
    const held = document.activeElement?.id;
    this.tools.replaceChildren(...tools);
    if (held) tools.find((one) => one.id === held)?.focus();
  }

  get path() {
    return `/v1/optimizations/${encodeURIComponent(this.id)}`;
  }

  /** @param {string} text @param {string} look @param {() => Promise<unknown>} act @param {string} [id] */
  #button(text, look, act, id = text.toLowerCase()) {
    const made = make("button", { type: "button", class: look || false, text, id });
    made.addEventListener("click", async () => {
      made.disabled = true;
      this.told.replaceChildren();
      try {
        const kept = await act();
        if (kept !== false) await this.refresh();
      } catch (error) {
        this.#fail(error);
      } finally {
        made.disabled = false;
      }
    });
    return made;
  }

  /** @param {boolean} partial */
  async #apply(partial) {
    const n = this.job.result.diff.requests.length;
    const yes = await confirmed({
      title: partial ? "Apply what still fits?" : `Apply ${counted(n, "change")}?`,
      text: partial ? "Places may differ from those shown. Nobody who holds something loses it." : "All of it is applied, or nothing.",
      yes: partial ? "Apply what still fits" : "Apply",
    });
    if (!yes) return false;
    const { body } = await call("POST", `${this.path}/apply${partial ? "?partial=true" : ""}`);
    const merged = body.merged ? ", merged with later changes" : "";
    return this.#done(`Applied: ${counted(body.changed, "reservation")} changed${merged}; version ${count(body.version)}.`, "Left out", body.left_out);
  }

  async #undo() {
    const yes = await confirmed({
      title: "Undo this optimisation?",
      text: "Reservations return to their previous allocations, and those that it admitted are cancelled. Reservations that have begun or were changed since are not touched.",
      yes: "Undo",
      danger: true,
    });
    if (!yes) return false;
    const { body } = await call("POST", `${this.path}/undo`);
    return this.#done(`Undone: ${counted(body.changed, "reservation")} undone; version ${count(body.version)}.`, "Unchanged", body.left);
  }

  /** Says what became of the Plan. @param {string} words @param {string} title @param {{id: string, detail: string}[]} left */
  async #done(words, title, left) {
    this.diff.mark([]);
    await this.refresh();
    this.told.replaceChildren(make("div", { class: "note" }, make("p", { text: words }), left.length ? this.#reasons(title, left) : null));
    say(words);
    return false;
  }

  /** @param {unknown} error */
  #fail(error) {
    if (!(error instanceof Problem) || error.code !== "conflict") {
      this.told.replaceChildren(troubleOf(error));
      return;
    }
    const conflicts = conflictsOf(error.errors);
    this.diff.mark(conflicts);
    const undoing = this.job.state === "applied";
    const fit = conflicts.length === 1 ? "fits" : "fit";
    const words = undoing
      ? `Not undone: ${counted(conflicts.length, "change")} cannot be undone. Nothing has changed.`
      : `Not applied: the Plan has moved on, and ${counted(conflicts.length, "change")} no longer ${fit}. Nothing has changed.`;
    this.told.replaceChildren(make("div", { class: "trouble", role: "alert" },
      make("p", {}, make("strong", { text: words })),
      this.#reasons(undoing ? "Cannot be undone" : "No longer fit", conflicts),
      undoing ? null : make("p", { text: "“Apply what still fits” takes the rest." })));
  }

  /** @param {string} title @param {{id: string, detail: string}[]} entries */
  #reasons(title, entries) {
    return make("ul", { "aria-label": title, class: "reasons" },
      ...entries.map((one) => make("li", {}, linkTo(one.id), ` – ${this.shell.times.inText(one.detail)}`)));
  }

  async #forget() {
    const yes = await confirmed({ title: "Forget this optimisation?", text: "Its result is deleted. The Plan does not change.", yes: "Forget", danger: true });
    if (!yes) return false;
    await call("DELETE", this.path);
    location.assign("/ui/optimizations");
    return false;
  }
}

/** As a sentence. @param {string} text */
const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;

/** @param {string} number @param {string} words */
const figure = (number, words) => make("span", {}, make("b", { text: number }), words);

/**
 * Who waited for a place and has none, and why.
 * @param {{id: string, code: string, detail: string}[]} entries
 * @param {import("../core/times.js").Times} times
 */
function leftOut(entries, times) {
  if (!entries.length) return "";
  const table = new PagedTable({
    label: "Who waited and has no place",
    rows: entries,
    size: 20,
    columns: [
      { title: "Request", of: (row) => linkTo(row.id), sort: (row) => row.id },
      { title: "Code", of: (row) => row.code },
      { title: "Why not", of: (row) => times.inText(row.detail) },
    ],
  });
  return make("section", { class: "panel" },
    make("h2", { text: `${counted(entries.length, "request")} waited and ${entries.length === 1 ? "has" : "have"} no place` }), table.element);
}
