// What became of a request: what it would hold, what it holds, or a no with what would do instead.
import { facts, make } from "../core/dom.js";
import { amount, decimal } from "../core/numbers.js";
import { PagedTable } from "../core/table.js";
import { offerCards } from "../reservation/offers.js";
import { heldWords } from "../reservation/sentence.js";
import { displacedLine } from "./displaced.js";

/** @typedef {import("../core/times.js").Times} Times */

/** @param {any} body of a reservation @param {Times} times */
export const promiseWords = (body, times) => `${heldWords(body, times)}.`;

/** What a dry run was granted. @param {any} body @param {Times} times */
export const granted = (body, times) => make("section", { class: "panel outcome yes", "aria-label": "Preview" },
  make("h2", { text: "It would be accepted" }),
  make("p", { class: "sentence", text: `It would hold ${promiseWords(body, times)}` }),
  displacedLine(body, true),
  make("p", { class: "faint", text: "Nothing is asked for yet. Others may take the room meanwhile." }),
  heldDetails(body, times));

/** What was granted. @param {any} body @param {Times} times */
export const accepted = (body, times) => make("section", { class: "panel outcome yes", "aria-label": "Answer" },
  make("h2", {}, "Accepted: ", make("a", { href: `/ui/reservations/${encodeURIComponent(body.id)}`, text: body.id })),
  make("p", { class: "sentence", text: `It holds ${promiseWords(body, times)}` }),
  displacedLine(body, false),
  heldDetails(body, times));

/** @param {any} body @param {Times} times */
function heldDetails(body, times) {
  const rows = body.atoms.flatMap((/** @type {any} */ atom) => atom.allocation.map((/** @type {number[]} */ row) => ({ atom, from: row[0], to: row[1], bundles: row[2] })));
  if (!rows.length) return null;
  const table = new PagedTable({
    label: "What it holds",
    rows,
    size: 12,
    columns: [
      { title: "Part", of: (row) => row.atom.name ?? "the request", sort: (row) => row.atom.path },
      { title: "From", of: (row) => times.full(row.from), sort: (row) => row.from },
      { title: "To", of: (row) => times.full(row.to), sort: (row) => row.to },
      { title: "Bundles", of: (row) => decimal(row.bundles), sort: (row) => row.bundles, number: true },
      { title: "Each", of: (row) => Object.entries(row.atom.bundle).map(([name, size]) => `${size} ${name}`).join(", ") },
    ],
  });
  return make("details", {}, make("summary", { text: "As table" }), table.element);
}

/**
 * A no, with its offers.
 * @param {{detail: string, binding: any, code: string}} refusal
 * @param {any[]} offers
 * @param {Times} times
 * @param {{dry: boolean, id: string|null, preview: (offer: any, button: HTMLElement) => void, accept: (offer: any) => void}} settings
 *   `id`: under which the refusal is kept
 */
export function refused(refusal, offers, times, { dry, id, preview, accept }) {
  const title = dry ? ["It would be refused"] : ["Refused", ...(id ? [": ", make("a", { href: `/ui/reservations/${encodeURIComponent(id)}`, text: id })] : [])];
  return make("section", { class: "panel outcome no", "aria-label": dry ? "Preview" : "Answer" },
    make("h2", {}, ...title),
    make("p", { class: "sentence", text: `${times.inText(refusal.detail)}.`.replace(/\.\.$/, ".") }),
    bindingFacts(refusal.binding, times),
    make("h3", { text: offers.length ? "What would be accepted instead" : "Nothing near it would be accepted now." }),
    offers.length ? offerCards(offers, times, { preview, accept }) : null);
}

/** @param {any} binding @param {Times} times */
function bindingFacts(binding, times) {
  if (!binding || typeof binding.needed !== "number") return null;
  const unit = ["capacity", "policy"].includes(binding.kind) ? ` ${binding.resource ?? ""}` : binding.kind === "lease" ? " s" : "";
  return facts([
    ["when", typeof binding.at === "number" ? times.full(binding.at) : null],
    ["needed", `${amount(binding.needed, "")}${unit}`],
    ["free", typeof binding.free === "number" ? `${amount(binding.free, "")}${unit}` : null],
    ["policy", binding.policy],
  ]);
}
