// One reservation or refusal: a first form, filled in by the next commit.
import { read } from "../core/api.js";
import { facts, make } from "../core/dom.js";

export class ReservationView {
  /**
   * @param {import("../core/shell.js").Shell} shell
   * @param {string} id
   * @param {HTMLElement} place
   * @param {{isShort?: boolean}} [settings]
   */
  constructor(shell, id, place, settings = {}) {
    Object.assign(this, { shell, id, place, settings });
  }

  async load() {
    this.body = await read(`/v1/reservations/${encodeURIComponent(this.id)}`);
  }

  show() {
    if (this.body) this.place.replaceChildren(facts([["tenant", this.body.tenant], ["state", this.body.state]]), make("pre", { text: this.body.expression }));
  }

  end() {}
}
