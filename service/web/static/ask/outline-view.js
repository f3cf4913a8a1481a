// What a request means in a few lines, and its parts as a list that leads to their places.
import { facts, make } from "../core/dom.js";

/** What a line of the meaning is called on the page. @type {Record<string, string>} */
const WORDS = { runs: "Runs", first: "First run", last: "Last run", time: "Time", work: "Work", "at once": "At once" };

export class OutlineView {
  /**
   * @param {(span: [number, number]) => void} go called with the place of a part that is pressed
   * @param {import("../core/times.js").Times} times
   */
  constructor(go, times) {
    this.go = go;
    this.times = times;
    /** @type {any} */
    this.answer = null;
    times.addEventListener("change", () => this.answer && this.show(this.answer));
    this.lines = make("div");
    this.parts = make("ul", { class: "outline", "aria-label": "Parts of the request" });
    this.notes = make("div");
    this.old = make("p", { class: "note", hidden: true, text: "This is what was read before: the text has problems now." });
    this.element = make("div", {}, this.old, this.lines, this.notes, this.parts);
    this.empty();
  }

  /** The text has problems: what is shown is of an earlier one. */
  stale() {
    this.old.hidden = !this.parts.childElementCount;
  }

  empty(text = "What it means is said here as soon as it can be read.") {
    this.old.hidden = true;
    this.answer = null;
    this.lines.replaceChildren(make("p", { class: "faint", text }));
    this.parts.replaceChildren();
    this.notes.replaceChildren();
  }

  /** @param {any} answer of a check */
  show(answer) {
    this.old.hidden = true;
    this.answer = answer;
    const { meaning } = answer;
    const once = meaning?.runs === 1;
    const lines = /** @type {[string, string][]} */ (answer.lines);
    const shown = lines.filter(([what]) => !(once && what === "last"));
    this.lines.replaceChildren(shown.length
      ? facts(shown.map(([what, said]) => [once && what === "first" ? "Window" : WORDS[what] ?? what, this.#said(what, said, meaning)]))
      : make("p", { text: "A best-effort session: nothing is promised, so nothing is planned." }));
    this.notes.replaceChildren(...[
      ...answer.questions.map((/** @type {any} */ one) => this.#question(one)),
      ...answer.notes.map((/** @type {string} */ text) => make("p", { class: "faint", text: `Note: ${text}` })),
    ]);
    this.parts.replaceChildren(...answer.outline.map((/** @type {any} */ part) => this.#part(part)));
  }

  /** A line; times as the page shows them where the request names no zone of its own. @param {string} what @param {string} said @param {any} meaning */
  #said(what, said, meaning) {
    const run = what === "first" || what === "last" ? meaning[what] : null;
    return run && !meaning.zone ? this.times.span(run.start, run.end) : said;
  }

  /** @param {any} one */
  #question(one) {
    const text = `${one.message}${one.fix ? ` – ${one.fix}` : ""}`;
    if (!one.span) return make("p", { class: "note", text });
    return make("p", { class: "note" }, make("button", { type: "button", class: "quiet", text, on: { click: () => this.go(one.span) } }));
  }

  /** @param {any} part */
  #part(part) {
    const depth = part.path === "" ? 0 : part.path.split(".").length;
    const words = [
      part.name ? make("b", { text: `${part.name} ` }) : null,
      make("span", { class: "operator", text: part.operator }), ` ${part.said}`];
    const shown = part.span
      ? make("button", { type: "button", class: "quiet", on: { click: () => this.go(part.span) } }, ...words)
      : make("span", {}, ...words);
    const item = make("li", {}, shown);
    item.style.paddingLeft = `${Math.min(depth, 12) * 1.1}rem`;
    item.dataset.path = part.path;
    return item;
  }
}

/**
 * The place of the part that a binding names; the part may stand in an occurrence ("0@3.1").
 * @param {any[]} outline @param {string|null|undefined} path
 * @returns {[number, number]|null}
 */
export function placeOf(outline, path) {
  if (path === null || path === undefined) return null;
  const plain = path.replace(/@\d+/g, "");
  return outline.find((part) => part.path === plain)?.span ?? null;
}
