// Whom a request displaces by its priority, and what becomes of each.
import { make } from "../core/dom.js";
import { counted } from "../core/numbers.js";

/** How many are named; of the others their number is told. */
const NAMED = 12;

/**
 * The begin of the sentence, and what it lists: an id with a link or none, and what follows it.
 * @param {any} body @param {boolean} isDry @returns {{begin: string, list: [string, string][]}|null}
 */
function toldOf(body, isDry) {
  const displaced = body.displaced ?? [];
  if (!displaced.length) return null;
  const known = displaced.filter((/** @type {any} */ one) => one.id);
  const list = known.slice(0, NAMED).map((/** @type {any} */ one) => [one.id, ` ${one.fate}`]);
  if (known.length > NAMED) list.push(["", `${known.length - NAMED} more`]);
  for (const fate of ["moved", "degraded"]) {
    const hidden = displaced.filter((/** @type {any} */ one) => !one.id && one.fate === fate).length;
    if (hidden) list.push(["", `${hidden} of other tenants ${fate}`]);
  }
  return { begin: `It ${isDry ? "would displace" : "displaced"} ${counted(displaced.length, "reservation")}: `, list };
}

/** As it is said, with a blank before it; empty: it displaces nobody. @param {any} body @param {boolean} isDry */
export function displacedWords(body, isDry) {
  const told = toldOf(body, isDry);
  return told ? ` ${told.begin}${told.list.map(([id, rest]) => id + rest).join(", ")}.` : "";
}

/** As a paragraph with links; null: it displaces nobody. @param {any} body @param {boolean} isDry */
export function displacedLine(body, isDry) {
  const told = toldOf(body, isDry);
  return told && make("p", { class: "displaced" }, told.begin, ...told.list.flatMap(([id, rest], place) => [
    place ? ", " : null,
    id ? make("a", { href: `/ui/reservations/${encodeURIComponent(id)}`, text: id }) : null,
    rest,
  ]), ".");
}
