// How much better a Plan of the same requests could be, in one sentence.
import { read } from "../core/api.js";
import { make } from "../core/dom.js";
import { whenChanged } from "../core/live.js";
import { count, decimal, percent } from "../core/numbers.js";

/** What a bound may be above a value by rounding alone, as a part of it. */
const ROUNDING = 1e-9;

/** A bound takes the server a twentieth of a second or more: it is asked for now and then. */
const LEAST_MS = 10_000;

/**
 * "value 87,898; at most 30.3 % better exists".
 * @param {{value: number|null, bound: number|null, better: number|null, held: number, waiting: number}} told
 */
export function betterWords({ value, bound, better, held, waiting }) {
  if (value === null || bound === null) return `no bound is found for ${count(held + waiting)} requests`;
  const said = `value ${decimal(Math.round(value))}`;
  if (bound <= value * (1 + ROUNDING)) return held + waiting ? `${said}; nothing better exists` : "";
  if (better === null) return `${said}; at most ${decimal(Math.round(bound))} could be held`;
  return `${said}; at most ${percent(Math.max(better, 0.001))} better exists`;
}

/** A line with that sentence, which follows the Plan. @param {import("../core/shell.js").Shell} shell */
export function betterLine(shell) {
  const line = make("p", { class: "faint better", title: "Value: weight x core-hours x preference of all that is held. No plan of what is held and what was refused holds more than the bound." });
  const ask = async () => {
    try {
      line.textContent = betterWords(await read("/v1/plan/bound"));
    } catch {
      line.textContent = ""; // the page says elsewhere that the server is away
    }
  };
  whenChanged(shell.live, ask, { least: LEAST_MS });
  ask();
  return line;
}
