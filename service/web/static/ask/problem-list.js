// The problems of a request as a list: each leads to its place, and some are mended by a press.
import { make } from "../core/dom.js";
import { counted } from "../core/numbers.js";
import { say } from "../core/say.js";
import { replacementOf } from "../rdl/marks.js";

export class ProblemList {
  /**
   * @param {import("../rdl/editor.js").Editor} editor
   * @param {HTMLElement} line says how many there are
   * @param {HTMLElement} list
   */
  constructor(editor, line, list) {
    this.editor = editor;
    this.line = line;
    this.list = list;
  }

  show() {
    const { problems, answer, area } = this.editor;
    this.line.textContent = problems.length ? `${counted(problems.length, "problem")} · Alt+↓ goes to the next`
      : answer ? `No problem · ${counted(answer.atoms, "atom")}` : "Write a request.";
    area.setAttribute("aria-invalid", String(problems.length > 0));
    this.list.replaceChildren(...problems.map((one) => this.#item(one)));
  }

  /** @param {import("../rdl/editor.js").Fault} one */
  #item(one) {
    const { span } = one;
    const text = `${one.message}${one.fix ? ` – ${one.fix}` : ""}`;
    const place = span ? placeWords(this.editor.text, span[0]) : one.pointer ?? "";
    const other = replacementOf(one.fix);
    return make("li", {},
      span ? make("button", { type: "button", class: "quiet", on: { click: () => this.editor.go(span) } }, make("span", { class: "faint", text: place }), ` ${text}`)
        : make("span", { text: `${place} ${text}`.trim() }),
      span && other ? make("button", { type: "button", text: `Write ${other}`, on: { click: () => this.editor.replace(span, other) } }) : null);
  }

  /** Goes to the next one, and says it. */
  next() {
    const one = this.editor.next();
    say(one ? `${one.message}${one.fix ? `: ${one.fix}` : ""}` : "No problem");
  }
}

/** "line 3, column 5". @param {string} text @param {number} at */
export function placeWords(text, at) {
  const before = text.slice(0, at).split("\n");
  return `line ${before.length}, column ${(before.at(-1) ?? "").length + 1}`;
}
