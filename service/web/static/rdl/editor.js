// RDL in a plain text area (undo, input methods and screen readers work as everywhere) that lies,
// with clear letters, over a coloured copy of its text.
import { make } from "../core/dom.js";
import { moved, nextAfter, piecesOf } from "./marks.js";
import { tokensOf } from "./tokens.js";

const WAIT_MS = 200;

/**
 * @typedef {object} Fault
 * @property {[number, number]|null} span
 * @property {string} message
 * @property {string|null} fix
 * @property {string|null} [pointer]
 */

/**
 * Tells "changed" at once when the text is another, and "checked" when the server has judged it.
 * @fires changed
 * @fires checked
 */
export class Editor extends EventTarget {
  /**
   * @param {HTMLTextAreaElement} area
   * @param {HTMLElement} copy
   * @param {(text: string, signal: AbortSignal) => Promise<{problems: Fault[], answer: any}>} check
   */
  constructor(area, copy, check) {
    super();
    this.area = area;
    this.copy = copy;
    this.check = check;
    /** @type {Fault[]} */
    this.problems = [];
    /** @type {import("./marks.js").Mark[]} */
    this.marks = [];
    /** What the last check answered; null while a newer one is on its way, and where it found problems. */
    this.answer = null;
    this.text = area.value;
    this.timer = 0;
    this.asked = new AbortController();
    area.addEventListener("input", () => this.changed());
    area.addEventListener("scroll", () => this.follow());
    new ResizeObserver(() => this.follow()).observe(area);
    this.paint();
  }

  /** Puts another text in, as typing would: it can be undone. @param {string} text */
  write(text) {
    this.area.focus();
    this.area.setSelectionRange(0, this.area.value.length);
    this.#insert(text);
  }

  /** Puts a text in the place of a span. @param {[number, number]} span @param {string} text */
  replace(span, text) {
    this.area.focus();
    this.area.setSelectionRange(...span);
    this.#insert(text);
  }

  /** @param {string} text */
  #insert(text) {
    // Only this way a browser can undo it; where it is gone the text is set.
    if (!document.execCommand("insertText", false, text)) {
      this.area.setRangeText(text, this.area.selectionStart, this.area.selectionEnd, "end");
      this.changed();
    }
  }

  changed() {
    const [before, after] = [this.text, this.area.value];
    this.text = after;
    this.answer = null;
    this.problems = this.problems.map((one) => ({ ...one, span: one.span && moved(one.span, before, after) }));
    this.marks = this.marks.flatMap((mark) => {
      const span = moved(mark.span, before, after);
      return span ? [{ ...mark, span }] : [];
    });
    this.paint();
    this.dispatchEvent(new Event("changed"));
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.ask(), WAIT_MS);
  }

  /** Has the text judged now; an older question is dropped. */
  async ask() {
    clearTimeout(this.timer);
    this.asked.abort();
    this.asked = new AbortController();
    const { signal } = this.asked;
    const text = this.text;
    try {
      const found = text.trim() ? await this.check(text, signal) : { problems: [], answer: null };
      if (text !== this.text || signal.aborted) return;
      this.problems = found.problems;
      this.answer = found.answer;
      this.paint();
      this.dispatchEvent(new Event("checked"));
    } catch (error) {
      if (/** @type {Error} */ (error).name !== "AbortError") throw error;
    }
  }

  /** Shows marks besides the problems. @param {import("./marks.js").Mark[]} marks */
  mark(marks) {
    this.marks = marks;
    this.paint();
  }

  paint() {
    const wrong = this.problems.flatMap((one) => (one.span ? [{ span: one.span, kind: "wrong" }] : []));
    const pieces = piecesOf(this.text, tokensOf(this.text), [...wrong, ...this.marks]);
    this.copy.replaceChildren(
      ...pieces.map((piece) => make("span", { class: piece.kinds.join(" ") || false, text: piece.text })), "\n");
    this.follow();
  }

  follow() {
    this.copy.scrollTop = this.area.scrollTop;
    this.copy.scrollLeft = this.area.scrollLeft;
  }

  /** Selects a place of the text. @param {[number, number]|null} span */
  go(span) {
    if (!span) return;
    this.area.focus();
    this.area.setSelectionRange(...span);
    const line = this.text.slice(0, span[0]).split("\n").length - 1;
    const height = parseFloat(getComputedStyle(this.area).lineHeight);
    const top = line * height;
    if (top < this.area.scrollTop || top + 2 * height > this.area.scrollTop + this.area.clientHeight) {
      this.area.scrollTop = Math.max(0, top - this.area.clientHeight / 2);
    }
  }

  /** Goes to the problem behind the caret; answers with it. @returns {Fault|null} */
  next() {
    const next = nextAfter(this.problems, this.area.selectionStart);
    if (next) this.go(next.span);
    return next;
  }
}
