// Fields of a form, each with its name beside it and a word of help below.
import { make } from "./dom.js";

let number = 0;

/**
 * A labelled field.
 * @param {string} label
 * @param {any} input
 * @param {string} [help]
 */
export function field(label, input, help = "") {
  number += 1;
  input.id ||= `field-${number}`;
  const said = help ? make("span", { class: "help", id: `${input.id}-help`, text: help }) : null;
  if (said) input.setAttribute("aria-describedby", said.id);
  return make("div", { class: "field" }, make("label", { for: input.id, text: label }), input, said);
}

/** A box to tick with its words. @param {string} label @param {any} input */
export const ticked = (label, input) => make("label", { class: "line" }, input, label);

/**
 * A list to choose from.
 * @param {(string|[string, string])[]} options each a value, or a value and how it is called
 * @param {string} [value]
 */
export function select(options, value = "") {
  const made = make("select", {}, ...options.map((one) => {
    const [name, shown] = typeof one === "string" ? [one, one] : one;
    return make("option", { value: name, text: shown, selected: name === value });
  }));
  return made;
}

/** What stands in a text field, without blanks around it; undefined where it is empty. @param {any} input */
export const filled = (input) => input.value.trim() || undefined;
