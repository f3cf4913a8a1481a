// Keys: single letters, pairs such as `g p`, and the list of them. Letters can be switched off.
import { $, make } from "./dom.js";

const OFF = "agenda.keys";
const PAIR_MS = 1500;
const MOVES = /^(Arrow|Page|Home|End|Enter)/;

/**
 * @typedef {object} Key
 * @property {string[]} keys as KeyboardEvent names them; "g p" is a pair; one that begins with
 *   "Ctrl+" or "Alt+" is pressed with that
 * @property {string} says what it does
 * @property {(key: string) => void} act is told which of its keys it was
 * @property {string} [shown] how the list writes them
 * @property {boolean} [field] also obeyed while a text is written
 */

/** @type {Key[]} */
const known = [];
let waiting = "";
let since = 0;

export const lettersAreOn = () => localStorage.getItem(OFF) !== "off";

/** Adds keys; the list shows them in this order. @param {...Key} keys */
export function addKeys(...keys) {
  known.push(...keys);
}

/** @param {KeyboardEvent} event */
function nameOf(event) {
  const held = event.ctrlKey || event.metaKey ? "Ctrl+" : event.altKey ? "Alt+" : "";
  return held + event.key;
}

/** Letters, digits and signs: what can be switched off. @param {string} name */
const isLetter = (name) => name.length === 1;

/** Whether an element keeps the key for itself. @param {Element} target @param {string} name */
function isKept(target, name) {
  if (target.matches("textarea, select, input:not([type=radio]):not([type=checkbox]), [contenteditable]")) return true;
  // Buttons, links, radios and tables keep what moves and presses; pictures give it to the page.
  return MOVES.test(name) && target !== document.body && target.id !== "main" && !target.closest("[data-picture]");
}

/** @param {KeyboardEvent} event */
function obey(event) {
  if (event.defaultPrevented || event.isComposing || document.querySelector("dialog[open]")) return;
  const target = /** @type {Element} */ (event.target);
  let name = nameOf(event);
  if (isLetter(name) && !lettersAreOn()) return;
  const kept = isKept(target, name);
  if (!kept && event.timeStamp - since < PAIR_MS && waiting) name = `${waiting} ${name}`;
  waiting = "";
  const found = known.find((one) => one.keys.includes(name) && (!kept || one.field));
  if (found) {
    event.preventDefault();
    found.act(event.key);
  } else if (!kept && known.some((one) => one.keys.some((key) => key.startsWith(`${name} `)))) {
    waiting = name;
    since = event.timeStamp;
  }
}

export function showKeys() {
  const dialog = $("keys");
  const letters = make("input", { type: "checkbox", id: "letters", checked: lettersAreOn() });
  letters.addEventListener("change", () => localStorage.setItem(OFF, letters.checked ? "on" : "off"));
  dialog.replaceChildren(
    make("h2", { id: "keys-title", text: "Shortcuts" }),
    make("dl", { class: "keys" }, ...known.flatMap((one) => [
      make("dt", {}, ...(one.shown ?? one.keys[0]).split(/(?= )| /).filter(Boolean).map((key) => make("kbd", { text: key }))),
      make("dd", { text: one.says }),
    ])),
    make("label", { class: "line" }, letters, "Obey single letters and digits"),
    make("form", { method: "dialog" }, make("button", { text: "Close" })),
  );
  dialog.showModal();
}

export function startKeys() {
  addEventListener("keydown", obey);
  $("help").addEventListener("click", showKeys);
}
