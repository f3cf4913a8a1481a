// A refusal: what stood in the way, drawn on the skyline, who holds it, and what would be accepted.
import { ghostOf } from "../chart/ghost.js";
import { legend, Skyline } from "../chart/skyline.js";
import { Span } from "../chart/span.js";
import { call, newKey, Problem, read, withQuery } from "../core/api.js";
import { facts, make } from "../core/dom.js";
import { amount, counted } from "../core/numbers.js";
import { windowOf } from "../core/rdl-text.js";
import { attempt, say } from "../core/say.js";
import { PagedTable } from "../core/table.js";
import { markOf } from "./binding.js";
import { offerCards, offerWords } from "./offers.js";
import { requestText } from "./sentence.js";

export class RefusalView {
  /** @param {import("./view.js").ReservationView} view */
  constructor(view) {
    this.view = view;
    this.offers = /** @type {any[]} */ (view.body.offers ?? []);
    this.fits = false;
    this.says = make("p", { class: "faint", text: "" });
    this.cards = make("div");
    this.legend = make("div", { class: "legend" });
    this.host = make("div", { class: "picture skyline", tabindex: "0", role: "group", "aria-label": "Skyline around the instant at which there was no room" });
    this.span = new Span(0, 1);
    this.window = /** @type {[number, number]|null} */ (null);
    this.#look();
    this.skyline = new Skyline(this.host, this.span, view.shell.times);
    this.skyline.onpoint = (text) => { this.says.textContent = text || this.rest; };
    this.rest = "";
  }

  /** The time that is shown: the window, and some of either side. */
  #look() {
    const { body, shell } = this.view;
    const at = body.binding?.at ?? shell.times.present();
    this.window = windowOf(body.expression);
    const [from, to] = this.window ?? [at - 3600, at + 3600];
    const margin = Math.max((to - from) * 0.3, 1800);
    this.span.first = 0;
    this.span.last = Infinity;
    this.span.show(Math.max(0, Math.min(from, at) - margin), Math.max(to, at) + margin);
  }

  async show() {
    const { body, shell, place, trouble } = this.view;
    const { times } = shell;
    this.holders = make("div");
    place.replaceChildren(
      make("p", { class: "sentence" }, make("span", { class: "state refused", text: "refused" }), ` ${times.inText(body.detail)}.`),
      trouble,
      make("section", { class: "panel" }, make("div", { class: "bar" }, make("h2", { text: "Where there was no room" }), this.legend), this.host, this.says, this.holders),
      make("section", { class: "panel", "aria-labelledby": "offers-title" }, make("h2", { id: "offers-title", text: "What would be accepted" }), this.cards),
      make("div", { class: "beside" },
        make("section", { class: "panel" }, make("h2", { text: "Request" }), ...requestText(body)),
        make("section", { class: "panel" }, make("h2", { text: "Facts" }), facts([
          ["tenant", body.tenant], ["queue", body.queue], ["asked", times.ofText(body.submitted_at)],
          ["window", this.window ? times.span(...this.window) : null], ["code", body.code],
          ["part", body.binding && (body.binding.name ?? "the request")], ["policy", body.binding?.policy],
        ]))));
    if (this.drawn === body) return this.#showOffers();
    this.cards.replaceChildren(make("p", { class: "faint", text: "Looking at the Plan as it is now …" }));
    await attempt(trouble, () => this.#draw());
    this.#showOffers();
  }

  async #draw() {
    const { body, shell } = this.view;
    this.drawn = body;
    const step = 60 * Math.max(1, Math.ceil(this.span.length / 1500 / 60));
    const query = { resource: body.binding?.resource, from: Math.floor(this.span.from), to: Math.ceil(this.span.to), step: this.span.length / 60 > 1500 ? step : "" };
    const data = await read(withQuery("/v1/plan/skyline", query));
    this.span.first = data.from;
    this.span.last = data.to;
    this.span.show(data.from, data.to);
    this.skyline.mark = markOf(body, this.window, data.unit, shell.times);
    this.skyline.set(data);
    this.rest = this.skyline.mark?.text ?? "";
    this.says.textContent = this.rest;
    this.legend.replaceChildren(...legend(data.layers, (name) => {
      this.skyline.alone = this.skyline.alone === name ? undefined : name;
      this.skyline.stage.ask();
    }, this.skyline.alone));
    this.#showHolders(data.unit);
    const stale = this.offers.some((one) => one.at_version < data.version);
    if (stale || !this.offers.length) await this.#lookAgain();
  }

  /** @param {string} unit */
  #showHolders(unit) {
    const holders = this.view.explanation?.holders ?? [];
    if (!holders.length) return;
    const table = new PagedTable({
      label: "Who holds it now at that instant",
      rows: holders,
      columns: [
        { title: "held there now by", of: (one) => one.tenant ?? "others" },
        { title: "amount", number: true, of: (one) => amount(one.amount, unit), sort: (one) => one.amount },
        { title: "reservations", of: (one) => make("span", {}, counted(one.count, "reservation"), ...(one.reservations ?? []).slice(0, 4).flatMap((/** @type {string} */ id) => [" ", make("a", { href: `/ui/reservations/${encodeURIComponent(id)}`, text: id })])) },
      ],
    });
    this.holders.replaceChildren(table.element);
  }

  #request() {
    const { id, tenant, queue, weight, priority, expression } = this.view.body;
    return { id, tenant, queue, weight, priority, rdl: expression };
  }

  /** Asks for offers of the Plan as it is now. */
  async #lookAgain() {
    const { id, ...request } = this.#request();
    const { body } = await call("POST", "/v1/offers", { body: request });
    this.fits = body.accepted;
    this.offers = body.offers.map((/** @type {any} */ one) => ({ ...one, request: { ...one.request, id } }));
    this.version = body.version;
    this.#showOffers();
  }

  #showOffers() {
    const { shell, body } = this.view;
    const mayTake = shell.user.actsFor(body.tenant);
    const version = this.offers[0]?.at_version ?? this.version;
    const again = make("button", { type: "button", class: "quiet", text: "Check again", on: { click: () => attempt(this.view.trouble, () => this.#lookAgain()) } });
    const known = version === undefined ? "" : ` They hold at version ${version} of the Plan.`;
    if (this.fits) {
      this.cards.replaceChildren(make("p", { text: "There is room for the request as it is, by now." }),
        mayTake ? make("button", { type: "button", class: "main", text: "Request again", on: { click: () => this.#send(this.#request(), "The request") } }) : "");
      return;
    }
    this.cards.replaceChildren(
      this.offers.length ? offerCards(this.offers, shell.times, {
        preview: (offer, button) => this.#preview(offer, button),
        accept: mayTake ? (offer) => this.#send(offer.request, offerWords(offer, shell.times).title) : null,
      }) : make("p", { class: "faint", text: "Nothing was found that would be accepted." }),
      make("p", { class: "faint row" }, `${counted(this.offers.length, "offer")}.${this.offers.length ? known : ""}`, again));
  }

  /** Draws what an offer would hold, without taking it. @param {any} offer @param {HTMLElement} button */
  async #preview(offer, button) {
    const shown = button.getAttribute("aria-pressed") === "true";
    for (const one of this.cards.querySelectorAll("[aria-pressed]")) one.setAttribute("aria-pressed", "false");
    this.skyline.ghost = [];
    this.skyline.stage.ask();
    if (shown) return;
    await this.view.change(async () => {
      const body = await this.#sent("/v1/reservations?dry_run=true", offer.request);
      if (!body) return;
      const { times } = this.view.shell;
      const text = `It would hold ${times.span(body.begin, body.finish)}, tenant ${body.tenant}, at version ${body.version ?? offer.at_version}.`;
      button.setAttribute("aria-pressed", "true");
      const place = button.closest(".card")?.querySelector(".preview");
      if (place) place.textContent = text;
      this.skyline.ghost = ghostOf(body, this.skyline.data?.resource ?? "cpu");
      this.span.first = Math.min(this.span.first, body.begin);
      const finish = body.finish ?? body.window?.[1] ?? body.begin;
      this.span.last = Math.max(this.span.last, finish);
      this.span.show(Math.min(this.span.from, body.begin), Math.max(this.span.to, finish + 600));
      this.skyline.stage.ask();
      say(text);
    });
  }

  /** Takes an offer, once however often it is sent. @param {any} request @param {string} title */
  async #send(request, title) {
    await this.view.change(async () => {
      const body = await this.#sent("/v1/reservations", request, newKey());
      if (!body) return;
      await this.view.reload();
      say(`${title}: accepted. It holds ${this.view.shell.times.span(body.begin, body.finish)}.`);
    });
  }

  /**
   * Sends a request; where the room is gone meanwhile, shows the new refusal and its offers.
   * @param {string} path @param {any} request @param {string} [key]
   * @returns {Promise<any>} the reservation; null where there is none
   */
  async #sent(path, request, key) {
    try {
      return (await call("POST", path, { body: request, key })).body;
    } catch (error) {
      if (!(error instanceof Problem) || !error.refusal) throw error;
      await this.#begone(error.refusal);
      return null;
    }
  }

  /** Shows another refusal in place of this one, and says so. @param {any} refusal */
  async #begone(refusal) {
    const { view } = this;
    view.body = { ...refusal, state: "refused" };
    this.offers = refusal.offers ?? [];
    this.fits = false;
    this.skyline.ghost = [];
    this.#look();
    await this.show();
    const news = this.offers.length ? counted(this.offers.length, "new offer") : "There is no new offer";
    const text = `The room is gone meanwhile. ${view.shell.times.inText(refusal.detail)}. ${news}.`;
    view.news = make("div", { class: "trouble", role: "alert", text });
    say(text);
  }
}
