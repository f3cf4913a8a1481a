// One reservation or refusal, on its own page or beside the Plan; it follows what happens to it.
import { swatch } from "../chart/skyline.js";
import { call, read } from "../core/api.js";
import { facts, make } from "../core/dom.js";
import { whenChanged } from "../core/live.js";
import { decimal, duration } from "../core/numbers.js";
import { attempt, say } from "../core/say.js";
import { changeButtons } from "./change.js";
import { DegradedOffers } from "./degraded.js";
import { RefusalView } from "./refusal.js";
import { requestText, sentenceOf } from "./sentence.js";
import { Strip } from "./strip.js";

export class ReservationView {
  /**
   * @param {import("../core/shell.js").Shell} shell
   * @param {string} id
   * @param {HTMLElement} place
   * @param {{isShort?: boolean}} [settings] short: beside something else
   */
  constructor(shell, id, place, { isShort = false } = {}) {
    this.shell = shell;
    this.id = id;
    this.place = place;
    this.isShort = isShort;
    this.path = `/v1/reservations/${encodeURIComponent(id)}`;
    this.trouble = make("div");
    /** @type {any} */
    this.body = null;
    /** @type {any} */
    this.explanation = null;
    this.slot = /** @type {number|null} */ (null);
    this.refusal = /** @type {RefusalView|undefined} */ (undefined);
    this.isOver = false;
    /** Whether the user is changing it: what is heard of that is no news. */
    this.isChanging = false;
    /** Shown once a change is through. @type {HTMLElement|null} */
    this.news = null;
    this.redraw = () => !this.isOver && this.show();
    shell.times.addEventListener("change", this.redraw);
    whenChanged(shell.live, () => this.#look(), { least: 1500, kinds: ["commit", "reset", "start"] });
  }

  async load() {
    const [{ body }, tenants] = await Promise.all([call("GET", this.path), read("/v1/tenants")]);
    this.body = body;
    this.slot = tenants.tenants.find((/** @type {any} */ one) => one.name === body.tenant)?.slot ?? null;
    this.explanation = await read(`${this.path}/explanation`).catch(() => null);
  }

  async reload() {
    await attempt(this.trouble, () => this.load());
    this.show();
  }

  /** Runs a change by the user; its failure is shown in place. @param {() => Promise<void>} task */
  async change(task) {
    this.isChanging = true;
    this.news = null;
    await attempt(this.trouble, task);
    if (this.news) this.trouble.replaceChildren(this.news);
    this.isChanging = false;
  }

  /** Looks whether it has changed, and shows it anew where it has. */
  async #look() {
    if (this.isOver || this.isChanging || !this.body || document.querySelector("dialog[open]")) return;
    const body = await read(this.path).catch(() => null);
    if (!body || this.isOver || this.isChanging) return;
    const was = this.body;
    if (body.state === was.state && body.revision === was.revision && body.history?.length === was.history?.length) return;
    if (body.state !== was.state) say(`${this.id} is ${body.state} now.`);
    await this.reload();
  }

  /** Nothing of it is shown any more. */
  end() {
    this.isOver = true;
    this.shell.times.removeEventListener("change", this.redraw);
  }

  show() {
    if (!this.body || this.isOver) return;
    if (this.body.state === "refused") {
      this.refusal ??= new RefusalView(this);
      this.refusal.show();
      return;
    }
    this.refusal = undefined;
    const { body } = this;
    const strip = body.atoms.length && body.begin !== undefined && body.begin !== null ? new Strip(body, this.slot, this.shell.times) : null;
    const main = [
      strip ? make("section", { class: this.isShort ? false : "panel" }, make("h2", { text: "Held, and its window" }), strip.host,
        make("details", { open: !this.isShort }, make("summary", { text: "As a table" }), strip.table.element)) : null,
      make("section", { class: this.isShort ? false : "panel" }, make("h2", { text: "Request" }), ...requestText(body)),
    ];
    const side = [
      make("section", { class: this.isShort ? false : "panel" }, make("h2", { text: "Facts" }), this.#facts()),
      this.#explained(),
      body.notes.length ? make("section", { class: this.isShort ? false : "panel" }, make("h2", { text: "Notes" }), make("ul", {}, ...body.notes.map((/** @type {string} */ note) => make("li", { text: this.shell.times.inText(note) })))) : null,
      this.isShort ? null : this.#history(),
    ];
    const degraded = body.state === "degraded" && !this.isShort ? new DegradedOffers(this).element : null;
    this.place.replaceChildren(
      make("p", { class: "sentence" }, badge(this), " ", sentenceOf(body, this.shell.times)),
      this.trouble, changeButtons(this) ?? "", degraded ?? "",
      make("div", { class: this.isShort ? "stack" : "beside" }, make("div", {}, ...main.filter(Boolean)), make("div", {}, ...side.filter(Boolean))));
  }

  #facts() {
    const { body, shell } = this;
    return facts([
      ["tenant", make("span", { class: "row" }, swatch(this.slot), body.tenant)],
      ["queue", body.queue],
      ["asked", shell.times.ofText(body.submitted_at)],
      ["window", body.window ? shell.times.span(body.window[0], body.window[1]) : null],
      ["promise", body.promise],
      ["weight", decimal(body.weight)],
      ["priority", decimal(body.priority)],
      ["placed by", body.agent],
      ["revision", body.revision],
      ["kept until", body.held_until ? shell.times.full(body.held_until) : null],
    ]);
  }

  #explained() {
    const told = this.explanation;
    if (!told?.detail || !this.body.atoms.length) return null;
    const { times } = this.shell;
    const slack = told.slack ? [["may move earlier by", duration(told.slack.before)], ["may move later by", duration(told.slack.after)]] : [];
    const others = (told.alternatives ?? []).filter((/** @type {any} */ one) => !one.taken && typeof one.begin === "number");
    return make("section", { class: this.isShort ? false : "panel" },
      make("h2", { text: "Why there" }),
      make("p", { text: `${times.inText(told.detail)}.`.replace("..", ".") }),
      facts(/** @type {any} */ (slack)),
      others.length ? make("p", { class: "faint", text: `Placed now by other agents it would begin: ${others.map((/** @type {any} */ one) => `${times.full(one.begin)} (${one.agent})`).join(", ")}.` }) : null);
  }

  #history() {
    const { times } = this.shell;
    return make("section", { class: "panel" }, make("h2", { text: "History" }),
      make("ol", { class: "history" }, ...this.body.history.map((/** @type {any} */ one) => make("li", {},
        make("span", { class: "faint", text: one.at_at ? times.ofText(one.at_at) : times.full(one.at) }), ` ${one.what}`,
        one.detail ? ` – ${times.inText(String(one.detail))}` : "", make("span", { class: "faint", text: ` v ${one.version}` })))));
  }
}

/** Its state as a badge. @param {ReservationView} view */
export const badge = (view) => make("span", { class: `state ${view.body.state}`, text: view.body.state });
