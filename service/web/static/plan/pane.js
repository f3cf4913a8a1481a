// One reservation beside the pictures; the focus goes there, and comes back when it is closed.
import { $ } from "../core/dom.js";
import { attempt } from "../core/say.js";

export class Pane {
  /**
   * @param {import("../core/shell.js").Shell} shell
   * @param {import("../chart/gantt.js").Gantt} gantt
   * @param {(id: string) => void} keep is told which is open
   */
  constructor(shell, gantt, keep) {
    this.shell = shell;
    this.gantt = gantt;
    this.keep = keep;
    /** @type {import("../reservation/view.js").ReservationView|null} */
    this.view = null;
    $("pane-close").addEventListener("click", () => this.close());
  }

  /** @param {string} id @param {boolean} [focus] whether the focus goes there */
  async open(id, focus = true) {
    this.view?.end();
    $("pane").hidden = false;
    $("pane-title").textContent = id;
    $("pane-link").href = `/ui/reservations/${encodeURIComponent(id)}`;
    $("pane-body").replaceChildren();
    this.keep(id);
    const place = this.gantt.bars.findIndex((bar) => bar.id === id);
    if (place >= 0 && place !== this.gantt.chosen) this.gantt.choose(place);
    await attempt($("pane-body"), async () => {
      // Loaded when it is first needed: the pictures come before it.
      const { ReservationView } = await import("../reservation/view.js");
      this.view = new ReservationView(this.shell, id, $("pane-body"), { isShort: true });
      await this.view.load();
    });
    this.view?.show();
    if (focus) $("pane-title").focus();
  }

  close() {
    if (document.activeElement?.id === "find") this.#focusList();
    if ($("pane").hidden) return;
    this.view?.end();
    this.view = null;
    $("pane").hidden = true;
    this.keep("");
    this.#focusList();
  }

  #focusList() {
    ($("gantt").hidden ? $("as-table") : $("gantt")).focus();
  }
}
