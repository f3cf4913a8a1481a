// How much better a Plan of the same requests could be, in one sentence.
import { read } from "../core/api.js";
import { make } from "../core/dom.js";
import { whenChanged } from "../core/live.js";

/** A bound takes the server a twentieth of a second or more: it is asked for now and then. */
const LEAST_MS = 10_000;

/**
 * "value 87,898; up to 30.3 % more value is possible", as the server has it; nothing of an empty Plan.
 * @param {{held: number, waiting: number, sentence: string}} told
 */
export function betterWords({ held, waiting, sentence }) {
  return held + waiting ? sentence : "";
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
