// Small pictures as SVG. They scale with their box, and their colours come from the style sheet.

const SPACE = "http://www.w3.org/2000/svg";

/**
 * A new element of SVG.
 * @param {string} tag
 * @param {Record<string, string|number|null|undefined>} [settings] attributes; `text` the text
 * @param {...Node} children
 * @returns {SVGElement}
 */
export function svg(tag, settings = {}, ...children) {
  const made = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(settings)) {
    if (value === null || value === undefined) continue;
    if (name === "text") made.textContent = String(value);
    else made.setAttribute(name, String(value));
  }
  made.append(...children);
  return made;
}

/**
 * A picture that fills its box; what it shows stands beside it in words.
 * @param {number} width of its own units @param {number} height
 * @param {...Node} children
 */
export const stretched = (width, height, ...children) => svg("svg", {
  viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true", focusable: "false",
}, ...children);

/**
 * The class that fills with a tenant's colour; past the colours, and for all others, it is hatched.
 * @param {number|null|undefined} slot
 */
export function tenantClass(slot) {
  if (slot === null || slot === undefined) return "tenant others hatched";
  return `tenant s${slot % 8}${slot >= 8 ? " hatched" : ""}`;
}

/** The swatch of a tenant in a legend or before a name. @param {number|null|undefined} slot */
export const swatch = (slot) => svg("svg", { viewBox: "0 0 12 12", class: "swatch", "aria-hidden": "true" },
  svg("rect", { width: 12, height: 12, rx: 2, class: tenantClass(slot) }),
  ...(slot === null || slot === undefined || slot >= 8 ? [svg("path", { d: "M0 12L12 0M-3 3L3 -3M9 15L15 9M0 6L6 0M6 12L12 6", class: "hatch" })] : []));
