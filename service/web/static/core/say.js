// What is said aloud (a polite live region) and what went wrong, shown where it happened.
import { $, make } from "./dom.js";
import { Problem } from "./api.js";

/** Says a sentence to a screen reader. @param {string} text */
export function say(text) {
  const place = $("said");
  // The same sentence twice is said twice only where the text changes.
  place.textContent = place.textContent === text ? `${text}\u00a0` : text;
}

/**
 * A failure as a box: what, and each fault with its fix.
 * @param {unknown} error
 * @returns {HTMLElement}
 */
export function troubleOf(error) {
  if (!(error instanceof Problem)) throw error;
  const faults = error.errors.filter((one) => one.message !== error.message);
  return make("div", { class: "trouble", role: "alert" },
    make("p", {}, make("strong", { text: error.message })),
    faults.length ? make("ul", {}, ...faults.map((one) => make("li", {
      text: `${one.pointer ? `${one.pointer}: ` : ""}${one.message}${one.fix ? ` – ${one.fix}` : ""}`,
    }))) : null,
    make("p", { class: "faint", text: error.status ? `${error.code} · ${error.status}` : "The page tries again by itself." }),
  );
}

/**
 * Runs a task; shows its failure in a place, and empties the place first.
 * @template T
 * @param {HTMLElement} place
 * @param {() => Promise<T>} task
 * @returns {Promise<T|null>}
 */
export async function attempt(place, task) {
  try {
    const done = await task();
    place.replaceChildren();
    return done;
  } catch (error) {
    if (/** @type {Error} */ (error).name === "AbortError") return null;
    place.replaceChildren(troubleOf(error));
    return null;
  }
}
