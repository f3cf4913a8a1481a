// What a reservation is, in a sentence.
import { counted, duration } from "../core/numbers.js";

/** Most bundles that it holds at once. @param {any} body */
export function mostHeld(body) {
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

/**
 * @param {any} body of `GET /v1/reservations/{id}`
 * @param {import("../core/times.js").Times} times
 */
export function sentenceOf(body, times) {
  const now = times.present();
  const held = counted(mostHeld(body), "bundle");
  const spare = body.window ? body.window[1] - body.finish : null;
  const margin = spare === null ? "" : spare > 0 ? `, ${duration(spare)} before its deadline` : ", right at its deadline";
  const when = body.finish === undefined || body.finish === null ? "" : times.span(body.begin, body.finish);
  switch (body.state) {
    case "accepted": {
      const wait = body.begin - now;
      return `Promised: up to ${held}, ${when}${margin}.${wait > 0 ? ` It begins in ${duration(wait)}.` : ""}`;
    }
    case "active":
      return `Running since ${times.full(body.begin)}, up to ${held}; it ends ${times.full(body.finish)}${margin}.`;
    case "completed":
      return `Completed: it held up to ${held}, ${when}.`;
    case "degraded":
      return `Degraded: machines were lost under it, and it holds less than it was promised. What is left: up to ${held}, ${when}.`;
    case "failed":
      return "Failed: machines were lost under it, and its window can no longer hold it.";
    case "cancelled":
      return "Given up: its future was released, its past kept.";
    default:
      return `It is ${body.state}.`;
  }
}
