// Machines as cells by group: what is promised at the left of a cell, what runs at its right.
import { palette } from "../chart/palette.js";
import { make } from "../core/dom.js";
import { counted } from "../core/numbers.js";
import { theme } from "../core/theme.js";

const GAP = 3;
/** Sides of cells by how many there are at most. */
const SIZES = [[120, 34], [600, 24], [2000, 16]];

/**
 * @typedef {object} Block
 * @property {string} group
 * @property {any[]} machines
 * @property {HTMLCanvasElement} canvas
 * @property {number} columns
 */

export class MachineMap {
  /**
   * @param {HTMLElement} host
   * @param {(machine: any, open: boolean) => void} choose
   */
  constructor(host, choose) {
    this.host = host;
    this.choose = choose;
    /** @type {any[]} */
    this.machines = [];
    /** @type {Block[]} */
    this.blocks = [];
    this.by = "both";
    this.chosen = "";
    this.size = 24;
    new ResizeObserver(() => this.draw()).observe(host);
    theme.addEventListener("change", () => this.draw());
  }

  /** @param {any[]} machines by group @param {string} by both, promised or running */
  show(machines, by) {
    this.machines = machines;
    this.by = by;
    this.size = (SIZES.find(([most]) => machines.length <= most) ?? [0, 12])[1];
    const groups = [...new Set(machines.map((one) => one.group))];
    if (groups.join() !== this.blocks.map((one) => one.group).join()) this.#build(groups);
    for (const block of this.blocks) {
      block.machines = machines.filter((one) => one.group === block.group);
      const away = block.machines.filter((one) => !one.up).length;
      const words = `${counted(block.machines.length, "machine")}${away ? ` · ${away} down` : ""}`;
      /** @type {HTMLElement} */ (block.canvas.previousElementSibling?.lastElementChild).textContent = words;
    }
    this.draw();
  }

  /** @param {string[]} groups */
  #build(groups) {
    this.blocks = groups.map((group) => {
      const canvas = make("canvas", { "aria-hidden": "true" });
      const block = { group, machines: [], canvas, columns: 1 };
      canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => { canvas.title = wordsOf(this.#at(block, event)); });
      canvas.addEventListener("click", (/** @type {PointerEvent} */ event) => {
        const found = this.#at(block, event);
        if (found) this.choose(found, true);
      });
      return block;
    });
    this.host.replaceChildren(...this.blocks.map((block) => make("section", { class: "panel" },
      make("div", { class: "bar" }, make("h2", { text: block.group }), make("span", { class: "faint" })), block.canvas)));
  }

  /** @param {Block} block @param {PointerEvent} event */
  #at(block, event) {
    const side = this.size + GAP;
    const column = Math.floor(event.offsetX / side);
    if (column >= block.columns) return undefined;
    return block.machines[Math.floor(event.offsetY / side) * block.columns + column];
  }

  /** @param {string} name */
  mark(name) {
    this.chosen = name;
    this.draw();
    const place = this.#place();
    if (!place) return;
    const { block, index } = place;
    const top = block.canvas.getBoundingClientRect().top + Math.floor(index / block.columns) * (this.size + GAP);
    if (top < 0 || top > innerHeight - this.size) scrollBy(0, top - innerHeight / 2);
  }

  #place() {
    for (const block of this.blocks) {
      const index = block.machines.findIndex((one) => one.name === this.chosen);
      if (index >= 0) return { block, index };
    }
    return null;
  }

  /** Chooses a machine beside the one that is chosen. @param {"left"|"right"|"up"|"down"|"first"|"last"} way */
  move(way) {
    const place = this.#place();
    const last = this.machines.length - 1;
    let found;
    if (way === "first" || (!place && way !== "last")) found = this.machines[0];
    else if (way === "last" || !place) found = this.machines[last];
    else if (way === "left" || way === "right") {
      const here = this.machines.indexOf(place.block.machines[place.index]);
      found = this.machines[Math.min(Math.max(here + (way === "right" ? 1 : -1), 0), last)];
    } else found = this.#beside(place.block, place.index, way === "down" ? 1 : -1);
    if (found) this.choose(found, false);
  }

  /** The machine a row away; past the end of a group, that of the next one. @param {Block} block @param {number} index @param {number} by */
  #beside(block, index, by) {
    const row = Math.floor(index / block.columns) + by;
    const column = index % block.columns;
    const rows = Math.ceil(block.machines.length / block.columns);
    if (row >= 0 && row < rows) return block.machines[Math.min(row * block.columns + column, block.machines.length - 1)];
    const next = this.blocks[this.blocks.indexOf(block) + by];
    if (!next) return block.machines[index];
    const edge = by > 0 ? 0 : Math.ceil(next.machines.length / next.columns) - 1;
    return next.machines[Math.min(edge * next.columns + column, next.machines.length - 1)];
  }

  draw() {
    for (const block of this.blocks) this.#drawBlock(block);
  }

  /** @param {Block} block */
  #drawBlock(block) {
    const { canvas, machines } = block;
    const width = canvas.parentElement?.clientWidth ?? 0;
    const style = getComputedStyle(/** @type {Element} */ (canvas.parentElement));
    const room = width - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    const side = this.size + GAP;
    if (room < side) return;
    block.columns = Math.floor(room / side);
    const height = Math.ceil(machines.length / block.columns) * side + GAP;
    const ratio = devicePixelRatio || 1;
    canvas.style.width = `${room}px`;
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(room * ratio);
    canvas.height = Math.round(height * ratio);
    const g = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.#drawCells(g, block);
    const painter = { draw: (/** @type {any} */ pen) => this.#drawCells(pen, block) };
    Object.assign(canvas, { stage: { width: room, height, painter } });
  }

  /** @param {CanvasRenderingContext2D} g @param {Block} block */
  #drawCells(g, block) {
    const side = this.size + GAP;
    block.machines.forEach((machine, index) => {
      const [x, y] = [(index % block.columns) * side + GAP / 2, Math.floor(index / block.columns) * side + GAP / 2];
      this.#drawCell(g, machine, x, y);
    });
  }

  /** @param {CanvasRenderingContext2D} g @param {any} machine @param {number} x @param {number} y */
  #drawCell(g, machine, x, y) {
    const colours = palette();
    const { size } = this;
    g.fillStyle = colours.wash;
    g.fillRect(x, y, size, size);
    const half = this.by === "both" ? size / 2 : size;
    if (this.by !== "running") bar(g, colours.accent, x, y, half, size, machine.promised_share, true);
    if (this.by !== "promised") bar(g, colours.good, x + size - half, y, half, size, machine.used_share, false);
    g.lineWidth = 1;
    g.strokeStyle = colours.border;
    if (!machine.up) cross(g, colours.bad, x, y, size);
    g.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
    if (machine.name !== this.chosen) return;
    g.lineWidth = 3;
    g.strokeStyle = colours.focus;
    g.strokeRect(x - 0.5, y - 0.5, size + 1, size + 1);
  }
}

/**
 * A share as a bar from below; `hatched` by stripes, so that both are told apart without colour.
 * @param {CanvasRenderingContext2D} g @param {string} colour @param {number} x @param {number} y
 * @param {number} width @param {number} size @param {number} share @param {boolean} hatched
 */
function bar(g, colour, x, y, width, size, share, hatched) {
  const height = Math.min(share, 1) * size;
  if (!height) return;
  g.fillStyle = colour;
  g.globalAlpha = hatched ? 0.3 : 1;
  g.fillRect(x, y + size - height, width, height);
  g.globalAlpha = 1;
  if (!hatched) return;
  for (let at = y + size - 2; at >= y + size - height; at -= 4) g.fillRect(x, at, width, 1.5);
}

/** @param {CanvasRenderingContext2D} g @param {string} colour @param {number} x @param {number} y @param {number} size */
function cross(g, colour, x, y, size) {
  g.save();
  g.beginPath();
  g.rect(x, y, size, size);
  g.clip();
  g.strokeStyle = colour;
  g.lineWidth = 1.25;
  g.beginPath();
  for (let at = -size; at < size; at += 5) {
    g.moveTo(x + at, y);
    g.lineTo(x + at + size, y + size);
    g.moveTo(x + at, y + size);
    g.lineTo(x + at + size, y);
  }
  g.stroke();
  g.restore();
  g.strokeStyle = colour;
}

/** A machine in a sentence. @param {any} machine */
export function wordsOf(machine) {
  if (!machine) return "";
  const share = (/** @type {number} */ part) => `${Math.round(100 * part)} %`;
  const state = machine.up ? "up" : `down (${machine.outage.kind})`;
  return `${machine.name}: ${state}, ${share(machine.promised_share)} promised, ${share(machine.used_share)} taken by what runs`;
}
