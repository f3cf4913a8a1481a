// Offers: what would be accepted instead, as cards with a preview and a button to take it.
import { make } from "../core/dom.js";
import { duration, percent } from "../core/numbers.js";
import { windowOf } from "../core/rdl-text.js";

/** What an offer changes, in a few words. @param {any} offer @param {import("../core/times.js").Times} times */
export function offerWords(offer, times) {
  const { kind, asked, offered, share } = offer.change;
  const window = windowOf(offer.expression);
  const until = window ? ` by ${times.full(window[1])}` : "";
  switch (kind) {
    case "deadline":
      return { title: "A later deadline", text: times.change(asked, offered), more: `${duration(offered - asked)} later, ${percent(share)} of the window` };
    case "start":
      return { title: "An earlier start", text: times.change(asked, offered), more: `${duration(asked - offered)} earlier, ${percent(share)} of the window` };
    case "size":
      return { title: "Less work", text: `${percent(offered)} of the work${until}`, more: `${percent(share)} is left out` };
    default:
      return { title: "One option alone", text: `option ${Number(offered) + 1} of the request`, more: share ? `${percent(share)} of its worth is lost` : "" };
  }
}

/**
 * @param {any[]} offers
 * @param {import("../core/times.js").Times} times
 * @param {{preview: (offer: any, button: HTMLElement) => void, accept: ((offer: any) => void)|null}} acts
 *   `accept`: null where the user may not
 */
export function offerCards(offers, times, { preview, accept }) {
  return make("div", { class: "cards" }, ...offers.map((offer) => {
    const words = offerWords(offer, times);
    const show = make("button", { type: "button", text: "Preview", "aria-pressed": "false", on: { click: () => preview(offer, show) } });
    return make("article", { class: "card offer", "aria-label": words.title },
      make("h3", { text: words.title }),
      make("p", { class: "big", text: words.text }),
      make("p", { class: "faint", text: words.more }),
      make("div", { class: "row" }, show,
        accept ? make("button", { type: "button", class: "main", text: "Accept", on: { click: () => accept(offer) } }) : null),
      make("p", { class: "faint preview" }));
  }));
}
