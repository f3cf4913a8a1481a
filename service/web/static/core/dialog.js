// Questions to the user, as dialogs that keep the focus and give it back.
import { make } from "./dom.js";

/**
 * Asks before something is changed; answers whether to go on.
 * @param {{title: string, text?: string|Node, yes: string, danger?: boolean}} question
 * @returns {Promise<boolean>}
 */
export function confirmed({ title, text = "", yes, danger = false }) {
  return new Promise((answer) => {
    const dialog = make("dialog", { "aria-labelledby": "question-title" },
      make("h2", { id: "question-title", text: title }),
      make("div", {}, text),
      make("form", { method: "dialog", class: "row" },
        make("button", { value: "yes", class: danger ? "danger" : "main", text: yes }),
        make("button", { value: "no", autofocus: true, text: "Leave it" })));
    document.body.append(dialog);
    dialog.addEventListener("close", () => {
      dialog.remove();
      answer(dialog.returnValue === "yes");
    });
    dialog.showModal();
  });
}
