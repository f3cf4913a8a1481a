// Where a request is tried and asked for. Nothing is asked for but by the buttons Ask and Accept.
import { call, Problem } from "../core/api.js";
import { $, make } from "../core/dom.js";
import { whenChanged } from "../core/live.js";
import { counted } from "../core/numbers.js";
import { attempt, say, troubleOf } from "../core/say.js";
import { displacedWords } from "./displaced.js";
import { AskKey, isUnknown } from "./key.js";
import { accepted, granted, promiseWords, refused } from "./outcome.js";

/** Refusals of requests that no plan could hold: offers are sought for them apart. */
const NEVER = ["unsatisfiable", "beyond_horizon"];

/**
 * @typedef {object} Desk
 * @property {HTMLElement} place of the outcome
 * @property {() => any} body what is asked for
 * @property {(path: string|null) => void} bound told which part a refusal is about
 *
 * @typedef {{kind: "granted"|"accepted"|"refused"|"failed", body?: any, refusal?: any, offers?: any[], error?: Problem}} Outcome
 */

export class AskDesk {
  /**
   * @param {import("../core/shell.js").Shell} shell
   * @param {import("./plan-picture.js").PlanPicture} picture
   * @param {Desk} desk
   */
  constructor(shell, picture, desk) {
    this.shell = shell;
    this.picture = picture;
    this.desk = desk;
    this.key = new AskKey();
    /** @type {Outcome|null} */
    this.outcome = null;
    this.isDry = true;
    this.busy = false;
    shell.times.addEventListener("change", () => this.#show());
    whenChanged(shell.live, () => this.#again(), { least: 3000 });
  }

  /** The request is another: what was answered is not about it. */
  forget() {
    if (!this.outcome) return;
    this.outcome = null;
    this.desk.place.replaceChildren();
    this.picture.clear();
  }

  preview() {
    return this.#send(this.desk.body(), true);
  }

  ask() {
    return this.#send(this.desk.body(), false);
  }

  /** Takes an offer. @param {any} offer */
  async accept(offer) {
    await this.#send(offer.request, false, true);
  }

  /**
   * @param {any} body @param {boolean} dry
   * @param {boolean} [isOffer] whether it was offered before
   */
  async #send(body, dry, isOffer = false) {
    if (this.busy) return;
    this.#wait(true);
    const outcome = await this.#outcomeOf(body, dry);
    this.#wait(false);
    if (!outcome) return;
    this.outcome = outcome;
    this.isDry = dry;
    this.#show();
    say(this.#words(isOffer));
    if (!dry) this.desk.place.focus();
    this.desk.place.scrollIntoView({ block: "nearest" });
  }

  /** @param {boolean} busy */
  #wait(busy) {
    this.busy = busy;
    this.desk.place.setAttribute("aria-busy", String(busy));
    for (const id of ["preview", "ask"]) $(id).disabled = busy;
  }

  /** @param {any} body @param {boolean} dry @returns {Promise<Outcome|null>} */
  async #outcomeOf(body, dry) {
    const key = dry ? undefined : this.key.of(body);
    try {
      const answer = await call("POST", `/v1/reservations${dry ? "?dry_run=true" : ""}`, { body, key });
      if (!dry) this.key.told(answer);
      return { kind: dry ? "granted" : "accepted", body: answer.body };
    } catch (error) {
      if (!dry) this.key.told(error);
      if (!(error instanceof Problem)) throw error;
      if (error.refusal) return { kind: "refused", refusal: error.refusal, offers: error.refusal.offers ?? [] };
      if (!NEVER.includes(error.code)) return { kind: "failed", error };
      const found = await call("POST", "/v1/offers", { body }).catch(() => null);
      return { kind: "refused", refusal: { detail: error.message, code: error.code, binding: null, id: null }, offers: found?.body.offers ?? [] };
    }
  }

  /** What is said aloud. @param {boolean} isOffer */
  #words(isOffer) {
    const { outcome } = this;
    const { times } = this.shell;
    switch (outcome?.kind) {
      case "granted": return `It would be accepted: ${promiseWords(outcome.body, times)}${displacedWords(outcome.body, true)}`;
      case "accepted": return `Accepted as ${outcome.body.id}: ${promiseWords(outcome.body, times)}${displacedWords(outcome.body, false)}`;
      case "refused": {
        const gone = isOffer ? "The offer is gone. " : this.isDry ? "It would be refused: " : "Refused: ";
        const offers = counted(outcome.offers?.length ?? 0, isOffer ? "new offer" : "offer");
        return `${gone}${times.inText(outcome.refusal.detail)}. ${offers}.`;
      }
      default: return outcome?.error?.message ?? "";
    }
  }

  #show() {
    const { outcome, picture, desk } = this;
    if (!outcome) return;
    const { times } = this.shell;
    if (outcome.kind === "failed") {
      const isOpen = !this.isDry && isUnknown(outcome.error);
      desk.place.replaceChildren(isOpen ? openQuestion() : troubleOf(outcome.error));
      picture.clear();
    } else if (outcome.kind === "refused") {
      desk.place.replaceChildren(refused(outcome.refusal, outcome.offers ?? [], times, {
        dry: this.isDry, id: this.isDry ? null : outcome.refusal.id,
        preview: (offer, button) => this.#previewOffer(offer, button), accept: (offer) => this.accept(offer),
      }));
      picture.refuse(outcome.refusal);
    } else {
      desk.place.replaceChildren((outcome.kind === "granted" ? granted : accepted)(outcome.body, times));
      picture.show(outcome.body);
    }
    desk.bound(outcome.kind === "refused" ? outcome.refusal.binding?.path ?? null : null);
  }

  /** Shows an offer as a ghost; pressed again, what was refused. @param {any} offer @param {HTMLElement} button */
  async #previewOffer(offer, button) {
    const wasOn = button.getAttribute("aria-pressed") === "true";
    for (const one of this.desk.place.querySelectorAll("[aria-pressed]")) one.setAttribute("aria-pressed", "false");
    if (wasOn) {
      await this.picture.refuse(this.outcome?.refusal);
      return;
    }
    const told = /** @type {HTMLElement} */ (button.closest(".card")?.querySelector(".preview"));
    const done = await attempt(told, () => call("POST", "/v1/reservations?dry_run=true", { body: offer.request }));
    if (!done) return;
    button.setAttribute("aria-pressed", "true");
    told.textContent = `It would hold ${promiseWords(done.body, this.shell.times)}${displacedWords(done.body, true)}`;
    say(told.textContent);
    await this.picture.show(done.body);
  }

  /** The Plan is another: a preview is made anew, and told where it says something else. */
  async #again() {
    const { outcome } = this;
    if (!outcome || !this.isDry || this.busy || !["granted", "refused"].includes(outcome.kind)) return;
    if (this.desk.place.contains(document.activeElement) && document.activeElement !== this.desk.place) return;
    const next = await this.#outcomeOf(this.desk.body(), true).catch(() => null);
    if (!next || this.outcome !== outcome || this.busy || next.kind === "failed") return;
    const shown = (/** @type {Outcome} */ one) => JSON.stringify([one.kind, one.body?.atoms, one.body?.displaced, one.refusal?.detail]);
    if (shown(next) === shown(outcome)) return;
    this.outcome = next;
    this.#show();
    if (next.kind !== outcome.kind) say(`The Plan has changed. ${this.#words(false)}`);
  }
}

/** Nobody knows whether it was granted: the same request under the same key tells. */
const openQuestion = () => make("div", { class: "trouble", role: "alert" },
  make("p", {}, make("strong", { text: "The server does not answer: it is open whether the request was granted." })),
  make("p", { text: "Press the button again: the same request is granted once, however often it is sent." }));
