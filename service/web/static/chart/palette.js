// Colours of the page as pictures need them, in the theme that is worn.
import { theme } from "../core/theme.js";

const NAMES = ["panel", "ink", "faint", "grid", "line", "border", "accent", "on-accent", "focus",
  "good", "warn", "bad", "window", "capacity", "now", "wash", "others"];
export const SLOTS = 8;

/**
 * @typedef {Record<string, string> & {tenants: string[]}} Palette
 */

/** @type {Palette|null} */
let kept = null;
theme.addEventListener("change", () => { kept = null; });

/** @returns {Palette} */
export function palette() {
  if (kept) return kept;
  const probe = document.createElement("i");
  probe.style.setProperty("forced-color-adjust", "none"); // else all of them are the system's one
  document.body.append(probe);
  /** @param {string} name */
  const colour = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const found = /** @type {any} */ (Object.fromEntries(NAMES.map((name) => [name, colour(name)])));
  found.tenants = Array.from({ length: SLOTS }, (_, slot) => colour(`t${slot}`));
  probe.remove();
  kept = found;
  return found;
}

/**
 * How a tenant is drawn: by its lasting slot; past the colours the same with hatching; null (all
 * others) in grey, hatched.
 * @param {number|null} slot
 * @returns {{colour: string, hatched: boolean}}
 */
export function lookOf(slot) {
  const colours = palette();
  if (slot === null) return { colour: colours.others, hatched: true };
  return { colour: colours.tenants[slot % SLOTS], hatched: slot >= SLOTS };
}
