// What a part of the page shows, as SVG: boxes, text, drawings and canvases, each where it stands.
import { SvgPen } from "./pen.js";

const SPACE = "http://www.w3.org/2000/svg";

/** What is there to be pressed, and what is not seen. */
const LEFT_OUT = "button:not(.link, .legend *, th *), input[type=file], input[type=password], summary, dialog, script, .unseen, .noprint";

/** What a drawing has from the style sheet. */
const PAINT = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "opacity", "vector-effect", "font-size", "font-family", "text-anchor"];

const ruler = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));

/** @param {string} name @param {Record<string, string|number>} settings @param {...Node} children */
function made(name, settings, ...children) {
  const element = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(settings)) element.setAttribute(key, String(value));
  element.append(...children);
  return element;
}

/** Whether a computed colour is seen. @param {string} colour */
const isSeen = (colour) => !/^transparent$|^rgba\(.*, 0\)$|\/ 0\)$/.test(colour);

/** What a field holds, or null for what is none. @param {Element} element @returns {string[]|null} */
function linesOf(element) {
  if (element instanceof HTMLSelectElement) return [...element.selectedOptions].map((one) => one.label);
  if (element instanceof HTMLTextAreaElement) return element.value.split("\n");
  return element instanceof HTMLInputElement ? [element.value] : null;
}

class Photo {
  /** @param {Element} whole what is drawn */
  constructor(whole) {
    const box = whole.getBoundingClientRect();
    this.left = box.left;
    this.top = box.top;
    this.width = Math.ceil(box.width);
    this.height = Math.ceil(box.height);
    this.marks = 0;
    this.shared = made("defs", {});
    this.root = made("svg", { xmlns: SPACE, width: this.width, height: this.height, viewBox: `0 0 ${this.width} ${this.height}` },
      this.shared, made("rect", { width: "100%", height: "100%", fill: getComputedStyle(document.body).backgroundColor }));
    this.#walk(whole, this.root);
  }

  /** @param {Element} element @param {Element} into */
  #walk(element, into) {
    if (element.matches(LEFT_OUT) || !element.checkVisibility()) return;
    if (element instanceof SVGSVGElement) return void into.append(this.#drawing(element));
    if (element instanceof HTMLCanvasElement) return void into.append(this.#canvas(element));
    const style = getComputedStyle(element);
    this.#box(element, style, into);
    if (element instanceof HTMLInputElement && ["checkbox", "radio"].includes(element.type)) return this.#choice(element, style, into);
    const lines = linesOf(element);
    if (lines) return this.#value(element, lines, style, this.#clipped(element, into));
    const inside = style.overflowX === "visible" && style.overflowY === "visible" ? into : this.#clipped(element, into);
    for (const child of element.childNodes) {
      if (child instanceof Text) this.#text(child, style, inside);
      else if (child instanceof Element) this.#walk(child, inside);
    }
  }

  /** A box to tick, or one of several. @param {HTMLInputElement} field @param {CSSStyleDeclaration} style @param {Element} into */
  #choice(field, style, into) {
    const { x, y, width, height } = this.#place(field);
    if (field.type === "radio") {
      const middle = { cx: x + width / 2, cy: y + height / 2 };
      into.append(made("circle", { ...middle, r: width / 2, fill: "none", stroke: style.color }));
      if (field.checked) into.append(made("circle", { ...middle, r: width / 4, fill: style.color }));
      return;
    }
    const tick = `M${x + width * 0.2} ${y + height * 0.5}l${width * 0.22} ${height * 0.25}l${width * 0.38} ${-height * 0.5}`;
    into.append(made("rect", { x, y, width, height, rx: 2, fill: "none", stroke: style.color }));
    if (field.checked) into.append(made("path", { d: tick, fill: "none", stroke: style.color, "stroke-width": 1.6 }));
  }

  /** What a field holds, line by line. @param {Element} field @param {string[]} lines @param {CSSStyleDeclaration} style @param {Element} into */
  #value(field, lines, style, into) {
    if (!isSeen(style.color)) return;
    const { x, y, height } = this.#place(field);
    const size = parseFloat(style.fontSize);
    const step = parseFloat(style.lineHeight) || 1.2 * size;
    const top = field instanceof HTMLTextAreaElement ? y + parseFloat(style.borderTopWidth) + parseFloat(style.paddingTop) - field.scrollTop : y + (height - step) / 2;
    for (const [n, line] of lines.entries()) {
      const element = made("text", {
        x: x + parseFloat(style.borderLeftWidth) + parseFloat(style.paddingLeft), y: top + n * step + (step + 0.7 * size) / 2,
        fill: style.color, "font-family": style.fontFamily, "font-size": style.fontSize, "xml:space": "preserve",
      });
      element.textContent = line;
      into.append(element);
    }
  }

  /** Where an element stands in the picture. @param {Element} element */
  #place(element) {
    const { left, top, width, height } = element.getBoundingClientRect();
    return { x: left - this.left, y: top - this.top, width, height };
  }

  /** A group that ends where the element ends. @param {Element} element @param {Element} into */
  #clipped(element, into) {
    const id = `cut-${this.marks += 1}`;
    this.shared.append(made("clipPath", { id }, made("rect", this.#place(element))));
    const group = made("g", { "clip-path": `url(#${id})` });
    into.append(group);
    return group;
  }

  /** Ground and edges. @param {Element} element @param {CSSStyleDeclaration} style @param {Element} into */
  #box(element, style, into) {
    const size = this.#place(element);
    const place = { ...size, rx: Math.min(parseFloat(style.borderTopLeftRadius) || 0, size.width / 2, size.height / 2) };
    if (!place.width || !place.height) return;
    if (isSeen(style.backgroundColor)) into.append(made("rect", { ...place, fill: style.backgroundColor }));
    if (style.backgroundImage !== "none") into.append(made("rect", { ...place, fill: this.#pattern(style.backgroundImage.replaceAll(/currentcolor/gi, style.color)) }));
    const edge = /inset/.test(style.boxShadow) ? style.boxShadow.match(/^[a-z]+\([^)]*\)/)?.[0] : null;
    if (edge) into.append(made("rect", { ...place, fill: "none", stroke: edge }));
    const { x, y, width, height } = place;
    const sides = [["Top", `M${x} ${y}h${width}`], ["Right", `M${x + width} ${y}v${height}`], ["Bottom", `M${x} ${y + height}h${width}`], ["Left", `M${x} ${y}v${height}`]];
    const drawn = sides.map(([side, d]) => ({ d, width: parseFloat(/** @type {any} */ (style)[`border${side}Width`]), way: /** @type {any} */ (style)[`border${side}Style`], colour: /** @type {any} */ (style)[`border${side}Color`] }))
      .filter((one) => one.width && !["none", "hidden"].includes(one.way) && isSeen(one.colour));
    const dash = (/** @type {string} */ way) => ({ "stroke-dasharray": way === "dashed" ? "4 3" : "none" });
    if (drawn.length === 4) into.append(made("rect", { ...place, fill: "none", stroke: drawn[0].colour, "stroke-width": drawn[0].width, ...dash(drawn[0].way) }));
    else into.append(...drawn.map((one) => made("path", { d: one.d, stroke: one.colour, "stroke-width": one.width, ...dash(one.way) })));
  }

  /** Dots, stripes or a cross for a ground of gradients. @param {string} image @returns {string} */
  #pattern(image) {
    const ink = image.match(/(?:rgba?|color|oklab)\([^)]*\)/g)?.reverse().find(isSeen) ?? "#000";
    const ways = [...image.matchAll(/(-?\d+)deg/g)].map(([, way]) => Number(way));
    const lines = ways.map((way) => (way === 0 ? "M0 3H6" : way > 0 ? "M0 0L6 6M-1 5L1 7M5 -1L7 1" : "M0 6L6 0M-1 1L1 -1M5 7L7 5"));
    const id = `pattern-${this.marks += 1}`;
    this.shared.append(made("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse" }, image.startsWith("radial")
      ? made("circle", { cx: 3, cy: 3, r: 1.3, fill: ink })
      : made("path", { d: lines.join(""), stroke: ink, "stroke-width": 1.6, fill: "none" })));
    return `url(#${id})`;
  }

  /** Text, line by line as the page breaks it. @param {Text} node @param {CSSStyleDeclaration} style @param {Element} into */
  #text(node, style, into) {
    const range = document.createRange();
    const isLaidOut = style.whiteSpaceCollapse === "preserve";
    /** @type {{text: string, box: DOMRect, right: number}[]} */
    const lines = [];
    for (const { 0: text, index } of node.data.matchAll(/\S+/g)) {
      range.setStart(node, index);
      range.setEnd(node, index + text.length);
      const box = range.getBoundingClientRect();
      const last = lines.at(-1);
      if (!box.width) continue;
      if (!last || isLaidOut || Math.abs(last.box.top - box.top) > 2) lines.push({ text, box, right: box.right });
      else Object.assign(last, { text: `${last.text} ${text}`, right: box.right });
    }
    ruler.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
    const { fontBoundingBoxAscent: above, fontBoundingBoxDescent: below } = ruler.measureText("x");
    for (const { text, box, right } of lines) {
      const element = made("text", {
        x: box.left - this.left, y: box.top - this.top + (box.height * above) / (above + below), textLength: right - box.left,
        lengthAdjust: "spacingAndGlyphs", fill: style.color, "font-family": style.fontFamily, "font-size": style.fontSize, "font-weight": style.fontWeight,
      });
      element.textContent = text;
      into.append(element);
    }
  }

  /** A drawing of the page, with what the style sheet gives it. @param {SVGSVGElement} drawing */
  #drawing(drawing) {
    const copy = /** @type {SVGSVGElement} */ (drawing.cloneNode(true));
    const copies = [copy, ...copy.querySelectorAll("*")];
    for (const [n, one] of [drawing, ...drawing.querySelectorAll("*")].entries()) {
      const style = getComputedStyle(one);
      for (const name of PAINT) copies[n].setAttribute(name, style.getPropertyValue(name));
      copies[n].removeAttribute("class");
    }
    for (const [name, value] of Object.entries(this.#place(drawing))) copy.setAttribute(name, String(value));
    copy.setAttribute("overflow", getComputedStyle(drawing).overflow);
    return copy;
  }

  /** A picture: drawn again where it can be, else as it is. @param {HTMLCanvasElement & {stage?: Pick<import("./stage.js").Stage, "width"|"height"|"painter">}} canvas */
  #canvas(canvas) {
    const { stage } = canvas;
    if (!stage) return made("image", { ...this.#place(canvas), href: canvas.toDataURL() });
    const pen = new SvgPen(stage.width, stage.height);
    pen.clips = 1000 * (this.marks += 1);
    stage.painter.draw(pen, stage.width, stage.height);
    for (const [name, value] of Object.entries(this.#place(canvas))) pen.root.setAttribute(name, String(value));
    return pen.root;
  }
}

/** What an element shows, as SVG. @param {Element} element */
export const photoOf = (element) => new XMLSerializer().serializeToString(new Photo(element).root);

/** The same as PNG, twice as fine. @param {Element} element @returns {Promise<Blob>} */
export async function pngPhotoOf(element) {
  const { root, width, height } = new Photo(element);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(root))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = 2 * width;
  canvas.height = 2 * height;
  /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d")).drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob((blob) => done(/** @type {Blob} */ (blob)), "image/png"));
}
