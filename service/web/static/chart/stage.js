// A canvas in its host: redrawn at most once a frame, sharp on every screen, moved by the pointer.
import { palette } from "./palette.js";
import { theme } from "../core/theme.js";

/** Room for the names at the left and the times below. */
export const LEFT = 68;
export const BELOW = 22;

/**
 * @typedef {object} Painter
 * @property {(g: any, width: number, height: number) => void} draw on a canvas or an `SvgPen`
 * @property {(x: number, y: number) => void} [hover] -1, -1 where the pointer has left
 * @property {(x: number, y: number) => void} [press]
 * @property {(by: number) => boolean} [scroll] false where there is nothing to scroll
 */

export class Stage {
  /**
   * @param {HTMLElement} host
   * @param {import("./span.js").Span} span
   * @param {Painter} painter
   */
  constructor(host, span, painter) {
    this.host = host;
    this.span = span;
    this.painter = painter;
    /** Room at the left; pictures below each other have the same. */
    this.left = LEFT;
    this.width = 0;
    this.height = 0;
    this.ratio = 1;
    this.asked = false;
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("aria-hidden", "true");
    Object.assign(this.canvas, { stage: this });
    host.prepend(this.canvas);
    host.dataset.picture = "";
    this.g = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d", { alpha: false }));
    new ResizeObserver(() => this.measure()).observe(host);
    span.addEventListener("change", () => this.ask());
    theme.addEventListener("change", () => this.ask());
    this.#follow();
  }

  measure() {
    this.ratio = devicePixelRatio || 1;
    this.width = this.host.clientWidth;
    this.height = this.host.clientHeight;
    this.canvas.width = Math.round(this.width * this.ratio);
    this.canvas.height = Math.round(this.height * this.ratio);
    this.paint();
  }

  /** Asks for a new picture with the next frame. */
  ask() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      this.paint();
    });
  }

  paint() {
    if (!this.width || !this.height) return;
    this.g.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.g.fillStyle = palette().panel;
    this.g.fillRect(0, 0, this.width, this.height);
    this.painter.draw(this.g, this.width, this.height);
  }

  /** Where an instant is drawn. @param {number} at */
  x(at) {
    return this.left + ((at - this.span.from) / this.span.length) * (this.width - this.left);
  }

  /** Which instant is drawn there. @param {number} x */
  at(x) {
    return this.span.from + ((x - this.left) / (this.width - this.left)) * this.span.length;
  }

  #follow() {
    const { host, painter } = this;
    /** @type {{x: number, y: number, moved: boolean}|null} */
    let held = null;
    host.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      held = { x: event.clientX, y: event.clientY, moved: false };
      host.setPointerCapture(event.pointerId);
    });
    host.addEventListener("pointermove", (event) => {
      if (!held) return void painter.hover?.(event.offsetX, event.offsetY);
      const [dx, dy] = [event.clientX - held.x, event.clientY - held.y];
      if (!held.moved && Math.abs(dx) + Math.abs(dy) < 4) return;
      this.span.pan(-dx / (this.width - this.left));
      if (event.pointerType === "mouse") painter.scroll?.(-dy);
      held = { x: event.clientX, y: event.clientY, moved: true };
    });
    host.addEventListener("pointerup", (event) => {
      if (held && !held.moved) painter.press?.(event.offsetX, event.offsetY);
      held = null;
    });
    host.addEventListener("pointercancel", () => { held = null; });
    host.addEventListener("pointerleave", () => painter.hover?.(-1, -1));
    this.#followTouch();
    host.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
  }

  /** A finger scrolls lanes that are taller than their picture; at their ends it scrolls the page. */
  #followTouch() {
    let y = 0;
    this.host.addEventListener("touchstart", (event) => { y = event.touches[0].clientY; }, { passive: true });
    this.host.addEventListener("touchmove", (event) => {
      const by = y - event.touches[0].clientY;
      y -= by;
      if (event.touches.length === 1 && event.cancelable && this.painter.scroll?.(by)) event.preventDefault();
    }, { passive: false });
  }

  /** The wheel scrolls lanes or the page; with Ctrl it zooms, with Shift it pans. @param {WheelEvent} event */
  #wheel(event) {
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (event.ctrlKey) this.span.zoom(Math.exp(event.deltaY / 400), this.at(event.offsetX));
    else if (event.shiftKey || sideways) this.span.pan((event.deltaX || event.deltaY) / 800);
    else if (!this.painter.scroll?.(event.deltaY)) return;
    event.preventDefault();
  }
}
