// What a reservation is, in a sentence; and what was asked for.
import { make } from "../core/dom.js";
import { counted, duration } from "../core/numbers.js";
import { layOut } from "../core/rdl-text.js";

/** Most bundles that it holds at once. @param {any} body */
function mostHeld(body) {
  /** @type {Map<number, number>} */
  const changes = new Map();
  for (const [start, end, bundles] of body.atoms.flatMap((/** @type {any} */ atom) => atom.allocation)) {
    changes.set(start, (changes.get(start) ?? 0) + bundles);
    changes.set(end, (changes.get(end) ?? 0) - bundles);
  }
  let held = 0;
  let most = 0;
  for (const at of [...changes.keys()].sort((a, b) => a - b)) {
    held += changes.get(at) ?? 0;
    most = Math.max(most, held);
  }
  return most;
}

/** Whether it is a best-effort session, for which nothing is planned. @param {any} body */
const isSession = (body) => body.finish === null && !body.window;

/** How long before its deadline it ends; nothing where it has no end or no deadline. @param {any} body */
function marginOf(body) {
  if (!body.window || typeof body.finish !== "number") return "";
  const spare = body.window[1] - body.finish;
  return spare > 0 ? `, ${duration(spare)} before its deadline` : ", right at its deadline";
}

/** What it holds most, when, and how long before its deadline. @param {any} body @param {import("../core/times.js").Times} times */
export const heldWords = (body, times) =>
  (isSession(body) ? "nothing of its own: a session runs on what promises leave free"
    : `up to ${counted(mostHeld(body), "bundle")}, ${times.span(body.begin, body.finish)}${marginOf(body)}`);

/**
 * @param {any} body of `GET /v1/reservations/{id}`
 * @param {import("../core/times.js").Times} times
 */
export function sentenceOf(body, times) {
  const now = times.present();
  const held = counted(mostHeld(body), "bundle");
  const when = typeof body.begin === "number" ? times.span(body.begin, body.finish ?? null) : "";
  if (isSession(body) && ["accepted", "active"].includes(body.state)) return `It holds ${heldWords(body, times)}.`;
  switch (body.state) {
    case "accepted": {
      const wait = body.begin - now;
      return `Promised: ${heldWords(body, times)}.${wait > 0 ? ` It begins in ${duration(wait)}.` : ""}`;
    }
    case "active":
      return `Running since ${times.full(body.begin)}, up to ${held}; it ${body.finish === null ? "has no end" : `ends ${times.full(body.finish)}${marginOf(body)}`}.`;
    case "completed":
      return body.runs_on ? `Its time is over, ${when}; its job still runs in Slurm.` : `Completed: it held up to ${held}, ${when}.`;
    case "degraded":
      return mostHeld(body) === 0
        ? "Degraded: all machines that were promised to it are lost, and it holds nothing now."
        : `Degraded: machines were lost, and it holds less than it was promised: up to ${held}, ${when}.`;
    case "failed":
      return "Failed: machines were lost under it, and its window can no longer hold it.";
    case "cancelled":
      return "Given up: its future was released, its past kept.";
    default:
      return `It is ${body.state}.`;
  }
}

/**
 * The request as it was submitted, to the letter, and its canonical form where that differs.
 * @param {any} body of a reservation or a refusal
 * @returns {HTMLElement[]}
 */
export function requestText(body) {
  const pre = (/** @type {string} */ name, /** @type {string} */ text) => make("pre", { tabindex: "0", "aria-label": name, text });
  const canonical = layOut(body.expression);
  if (body.written === undefined) return [pre("Request in RDL", canonical)];
  return [pre("Request as submitted", body.written), make("h3", { text: "Canonical form" }), pre("Request in RDL", canonical)];
}
