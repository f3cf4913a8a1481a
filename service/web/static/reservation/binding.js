// What a binding's figures mean, as a mark on the skyline and in words.
import { amount, count, duration } from "../core/numbers.js";

/**
 * @param {any} body of the refusal
 * @param {[number, number]|null} window
 * @param {string} unit of the skyline
 * @param {import("../core/times.js").Times} times
 * @returns {import("../chart/mark.js").Mark|null}
 */
export function markOf(body, window, unit, times) {
  const { binding } = body;
  if (!binding || typeof binding.at !== "number") return null;
  const { kind, at, needed, free } = binding;
  const mark = { window, at, needed: null, room: null, lease: null, text: "" };
  switch (kind) {
    case "capacity":
    case "policy":
      return { ...mark, needed: kind === "capacity" ? needed : null, text: `needs ${amount(needed, unit)}, ${amount(free, unit)} free at ${times.clock(at)}` };
    case "lease":
      return {
        ...mark, room: /** @type {[number, number]} */ ([at - free, at]), lease: /** @type {[number, number]} */ ([at - free, at - free + needed]),
        text: `room for ${duration(free)}, a lease takes ${duration(needed)}`,
      };
    case "work":
    case "shape":
      return { ...mark, text: `room for ${duration(free)} of work, ${duration(needed)} asked` };
    case "fit":
    case "machines":
      return { ...mark, text: `machines hold ${count(free)} of ${count(needed)} bundles at ${times.clock(at)}` };
    default:
      return { ...mark, text: `no room at ${times.clock(at)}` };
  }
}
