// Elements by name and from parts. Text goes in as text only: nothing a server says becomes HTML.

/**
 * The element of an id that the shell has.
 * @param {string} id
 * @returns {any}
 */
export const $ = (id) => document.getElementById(id);

/**
 * A new element.
 * @param {string} tag
 * @param {Record<string, any>} [settings] attributes; `on` holds listeners, `text` the text;
 *   what is false, null or undefined is left out
 * @param {...(Node|string|null|undefined)} children
 * @returns {any}
 */
export function make(tag, settings = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(settings)) {
    if (value === false || value === null || value === undefined) continue;
    if (name === "on") for (const [kind, act] of Object.entries(value)) made.addEventListener(kind, act);
    else if (name === "text") made.textContent = String(value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.filter((one) => one !== null && one !== undefined));
  return made;
}

/**
 * A list of terms, each with what stands for it; those without a value are left out.
 * @param {[string, Node|string|number|null|undefined][]} entries
 */
export function facts(entries) {
  const shown = entries.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return make("dl", { class: "facts" }, ...shown.flatMap(([term, value]) => [
    make("dt", { text: term }),
    make("dd", {}, value instanceof Node ? value : String(value)),
  ]));
}
