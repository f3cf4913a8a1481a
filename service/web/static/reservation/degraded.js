// A degraded reservation: what would be accepted in its place, to renegotiate by a press.
import { displacedWords } from "../ask/displaced.js";
import { call, Problem } from "../core/api.js";
import { make } from "../core/dom.js";
import { attempt, say } from "../core/say.js";
import { offerCards, offerWords } from "./offers.js";

export class DegradedOffers {
  /** @param {import("./view.js").ReservationView} view */
  constructor(view) {
    this.view = view;
    this.place = make("div", {}, make("p", { class: "faint", text: "Looking for offers …" }));
    this.trouble = make("div");
    this.element = make("section", { class: "panel" }, make("h2", { text: "Offers" }), this.trouble, this.place);
    this.#look();
  }

  async #look() {
    const { body, shell } = this.view;
    // Those of the server count from the submission; each is tried, since the Plan has moved on.
    const tried = await Promise.all((body.degradation?.offers ?? []).map((/** @type {any} */ offer) =>
      this.#put(offer, true).then(() => offer, (error) => { if (error instanceof Problem) return null; throw error; })));
    const offers = tried.filter(Boolean);
    if (!offers.length) {
      this.place.replaceChildren(make("p", { class: "faint", text: "Nothing was found that would be accepted instead." }));
      return;
    }
    const mayChange = shell.user.actsFor(body.tenant);
    this.place.replaceChildren(offerCards(offers, shell.times, {
      preview: (offer, button) => this.#change(offer, true, button),
      accept: mayChange ? (offer) => this.#change(offer, false) : null,
    }));
  }

  /** @param {any} offer @param {boolean} dry */
  async #put(offer, dry) {
    const { path, body } = this.view;
    return (await call("PUT", `${path}${dry ? "?dry_run=true" : ""}`, {
      body: { rdl: offer.expression, agent: body.agent }, match: String(body.revision),
    })).body;
  }

  /** @param {any} offer @param {boolean} dry @param {HTMLElement} [button] */
  async #change(offer, dry, button) {
    const { view } = this;
    const done = await attempt(this.trouble, () => this.#put(offer, dry));
    if (!done) return;
    const text = `${dry ? "It would hold" : "It holds"} ${view.shell.times.span(done.begin, done.finish)}.${displacedWords(done, dry)}`;
    const place = button?.closest(".card")?.querySelector(".preview");
    if (place) place.textContent = text;
    say(dry ? text : `${offerWords(offer, view.shell.times).title}: taken. ${text}`);
    if (!dry) await view.reload();
  }
}
