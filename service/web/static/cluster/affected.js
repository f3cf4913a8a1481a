// Who is affected by machines that go or come back, by fate: figures, and a table.
import { make } from "../core/dom.js";
import { count, counted, decimal } from "../core/numbers.js";
import { PagedTable } from "../core/table.js";

/** Fates from bad to good, and what each means. */
const FATES = /** @type {Record<string, string>} */ ({
  failed: "hold nothing any more",
  degraded: "hold less than was promised",
  moved: "at another time",
  relocated: "same times, other machines",
  regained: "still less than promised, more than before",
  restored: "hold all again",
});

const columns = [
  { title: "Reservation", of: (/** @type {any} */ one) => one.id
    ? make("a", { href: `/ui/reservations/${encodeURIComponent(one.id)}`, text: one.id }) : "–",
  sort: (/** @type {any} */ one) => one.id ?? "" },
  { title: "Tenant", of: (/** @type {any} */ one) => one.tenant },
  { title: "Fate", of: (/** @type {any} */ one) => make("span", { class: `state ${one.fate}`, text: one.fate }),
    sort: (/** @type {any} */ one) => Object.keys(FATES).indexOf(one.fate) },
  { title: "Value", number: true, of: (/** @type {any} */ one) => decimal(one.value), sort: (/** @type {any} */ one) => one.value },
  { title: "Why", of: (/** @type {any} */ one) => one.reason },
];

/**
 * The answer to an outage, or to its end, as an element.
 * @param {any} answer of `POST /v1/cluster/outages` or `DELETE .../{id}`
 * @param {boolean} tried whether nothing was changed
 */
export function affectedElement(answer, tried) {
  const fates = Object.keys(FATES).filter((fate) => answer.affected.some((/** @type {any} */ one) => one.fate === fate));
  const parts = fates.map((fate) => {
    const here = answer.affected.filter((/** @type {any} */ one) => one.fate === fate).length;
    return make("span", { title: FATES[fate] }, make("b", { text: here }), " ", make("span", { class: `state ${fate}`, text: fate }));
  });
  return make("div", { class: "affected" },
    make("p", { class: "figures" }, ...(parts.length ? parts : [make("span", {}, tried ? "Nobody would be affected." : "Nobody is affected.")]),
      answer.dropped ? make("span", {}, make("b", { text: decimal(answer.dropped) }), " value of what is degraded") : null),
    answer.pending ? make("p", { class: "trouble", text: "The repair goes on: more reservations may be affected." }) : null,
    answer.short ? make("p", { class: "trouble", text: `The machines still lack: ${answer.short}` }) : null,
    answer.affected.length ? new PagedTable({ label: "Reservations affected", columns, rows: answer.affected, size: 20 }).element : null);
}

/** What is said aloud of it. @param {any} answer @param {boolean} tried */
export function affectedWords(answer, tried) {
  const fates = Object.keys(FATES).map((fate) => ({ fate, count: answer.affected.filter((/** @type {any} */ one) => one.fate === fate).length }));
  const told = fates.filter((one) => one.count).map((one) => `${one.count} ${one.fate}`).join(", ");
  const whole = counted(answer.affected.length, "reservation");
  return `${whole} ${tried ? "would be" : "are"} affected${told ? `: ${told}` : ""}.`;
}

/** How an outage recurs: "every 1mo on first tue (UTC)". @param {any} outage */
export function recursWords(outage) {
  if (!outage.every) return "–";
  const days = (outage.days ?? []).join(", ") || outage.day;
  const on = days ? ` on ${days}` : "";
  const without = outage.except ? ` except ${outage.except.join(", ")}` : "";
  return `every ${outage.every}${on}${without} (${outage.zone})`;
}

/** The machines of an outage, the first of many. @param {any} outage */
export function namesOf(outage) {
  const some = outage.names.slice(0, 6).join(", ");
  return outage.names.length > 6 ? `${some} and ${count(outage.names.length - 6)} more` : some;
}
