// What a reservation holds against its window: a lane for each atom, and the same as a table.
import { drawHeld, drawWindow } from "../chart/gantt.js";
import { palette } from "../chart/palette.js";
import { Span } from "../chart/span.js";
import { BELOW, Stage } from "../chart/stage.js";
import { drawNow, drawTimes, fitted, FONT } from "../chart/strokes.js";
import { make } from "../core/dom.js";
import { count } from "../core/numbers.js";
import { PagedTable } from "../core/table.js";

const LANE = 24;
const MOST = 12;

export class Strip {
  /**
   * @param {any} body of the reservation
   * @param {number|null} slot of its tenant
   * @param {import("../core/times.js").Times} times
   */
  constructor(body, slot, times) {
    this.body = body;
    this.times = times;
    const [from, until] = [body.window?.[0] ?? body.begin, body.window?.[1] ?? body.finish];
    const ends = [from, until, body.begin, body.finish].filter((one) => typeof one === "number");
    const [first, last] = [Math.min(...ends), Math.max(...ends)];
    const margin = Math.max((last - first) * 0.06, 60);
    this.lanes = body.atoms.map((/** @type {any} */ atom) => ({
      name: atom.name ?? "the request",
      bar: {
        id: atom.path, tenant: body.tenant, slot, state: body.state, begin: body.begin, finish: body.finish ?? atom.allocation.at(-1)?.[1] ?? body.begin,
        from: body.window?.[0] ?? null, until: body.window?.[1] ?? null,
        peak: Math.max(1, ...atom.allocation.map((/** @type {number[]} */ row) => row[2])), rows: atom.allocation.flat(),
      },
    }));
    const host = make("div", { class: "picture strip", role: "img", tabindex: "0", "aria-label": `What ${body.id} holds over time, against its window; the table below says the same` });
    host.style.height = `${Math.min(this.lanes.length, MOST) * LANE + BELOW + 6}px`;
    this.host = host;
    this.span = new Span(first - margin, last + margin, 60);
    this.stage = new Stage(host, this.span, { draw: (g, width) => this.draw(g, width) });
    this.stage.left = this.#leftOf();
    this.table = new PagedTable({
      label: "What it holds, row by row",
      size: 12,
      rows: body.atoms.flatMap((/** @type {any} */ atom) => atom.allocation.map((/** @type {number[]} */ row) => ({ atom, row }))),
      columns: [
        { title: "part", of: ({ atom }) => atom.name ?? "the request" },
        { title: "from", of: ({ row }) => times.full(row[0]), sort: ({ row }) => row[0] },
        { title: "to", of: ({ row }) => times.full(row[1]), sort: ({ row }) => row[1] },
        { title: "bundles", number: true, of: ({ row }) => count(row[2]), sort: ({ row }) => row[2] },
        { title: "of", of: ({ atom }) => Object.entries(atom.bundle).map(([name, value]) => `${value} ${name}`).join(", ") },
      ],
    });
  }

  /** Room for the longest name, within limits. */
  #leftOf() {
    const { g } = this.stage;
    g.font = FONT;
    const widest = Math.max(...this.lanes.map((/** @type {any} */ one) => g.measureText(one.name).width));
    return Math.min(Math.max(68, Math.ceil(widest) + 14), innerWidth > 640 ? 200 : 110);
  }

  /** @param {any} g @param {number} width */
  draw(g, width) {
    drawTimes(g, this.stage, this.times);
    const colours = palette();
    const { left } = this.stage;
    const x = (/** @type {number} */ at) => this.stage.x(at);
    const shown = this.lanes.slice(0, MOST);
    for (const [n, { name, bar }] of shown.entries()) {
      const y = n * LANE + 4;
      g.font = FONT;
      g.textAlign = "right";
      g.textBaseline = "middle";
      g.fillStyle = colours.ink;
      g.fillText(fitted(g, name, left - 12), left - 7, y + LANE / 2);
      g.save();
      g.beginPath();
      g.rect(left, 0, width - left, this.stage.height);
      g.clip();
      drawWindow(g, bar, x, y, LANE - 2);
      drawHeld(g, bar, x, y, LANE - 2);
      g.restore();
    }
    drawNow(g, this.stage, this.times.present());
  }
}
