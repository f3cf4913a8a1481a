// Skylines of compared Plans beside each other: one axis of time, one scale, the same colours.
import { TimeStrip } from "../chart/strip.js";
import { make } from "../core/dom.js";
import { amount } from "../core/numbers.js";
import { stretched, svg, swatch, tenantClass } from "../core/svg.js";

const BOX = { width: 1000, height: 300 };

/**
 * The areas of stacked layers, the first at the bottom, as the `d` of paths.
 * @param {number[][]} layers amounts by tenant and bucket
 * @param {number} most amount at the top
 * @param {{width: number, height: number}} box
 * @returns {string[]}
 */
export function areasOf(layers, most, { width, height }) {
  const buckets = layers[0]?.length ?? 0;
  const step = width / Math.max(1, buckets);
  let floor = new Array(buckets).fill(0);
  return layers.map((layer) => {
    const top = floor.map((base, n) => base + layer[n]);
    const area = `${along(top, step, most, height)}${back(floor, step, most, height)}Z`;
    floor = top;
    return area;
  });
}

/** @param {number[]} amounts @param {number} step @param {number} most @param {number} height */
export function along(amounts, step, most, height) {
  let path = "";
  for (const [n, value] of amounts.entries()) {
    const y = (height - (value / most) * height).toFixed(1);
    path += n ? `V${y}H${((n + 1) * step).toFixed(1)}` : `M0 ${y}H${step.toFixed(1)}`;
  }
  return path;
}

/** @param {number[]} amounts @param {number} step @param {number} most @param {number} height */
function back(amounts, step, most, height) {
  let path = "";
  for (let n = amounts.length - 1; n >= 0; n -= 1) {
    const y = (height - (amounts[n] / most) * height).toFixed(1);
    path += `V${y}H${(n * step).toFixed(1)}`;
  }
  return path;
}

/**
 * The pictures of all agents.
 * @param {any} skylines of the result
 * @param {string} resource
 * @param {Map<string, number>} slots
 * @param {import("../core/times.js").Times} times
 */
export function skylinePictures(skylines, resource, slots, times) {
  const { unit, capacity } = skylines.resources[resource];
  const most = Math.max(...capacity, ...Object.values(skylines.agents).map((one) => peakOf(one[resource])), 1e-9);
  const offset = (Date.parse(skylines.origin) - times.originMs) / 1000;
  const span = { from: skylines.from + offset, to: skylines.to + offset };
  return make("div", { class: "skylines" }, ...Object.entries(skylines.agents).map(([agent, layers]) => {
    const areas = areasOf(layers[resource], most, BOX);
    const peak = peakOf(layers[resource]);
    const words = `${agent}: at most ${amount(peak, unit)} of ${amount(Math.max(...capacity), unit)}, ${times.span(span.from, span.to)}`;
    return make("figure", { class: "skyline" },
      make("figcaption", {}, make("b", { text: agent }), make("span", { class: "faint", text: ` at most ${amount(Math.round(peak), unit)}` })),
      make("div", { class: "skyline-box", role: "img", "aria-label": words }, stretched(BOX.width, BOX.height,
        ...areas.map((d, n) => svg("path", { d, class: tenantClass(slotOf(skylines.tenants[n], slots)) })),
        svg("path", { d: along(capacity, BOX.width / capacity.length, most, BOX.height), class: "capacity" }))),
      new TimeStrip(span.from, span.to, times).axis);
  }));
}

/** @param {number[][]} layers */
function peakOf(layers) {
  let peak = 0;
  for (let n = 0; n < (layers[0]?.length ?? 0); n += 1) {
    peak = Math.max(peak, layers.reduce((sum, layer) => sum + layer[n], 0));
  }
  return peak;
}

/** @param {string|null} tenant @param {Map<string, number>} slots */
const slotOf = (tenant, slots) => (tenant === null ? null : slots.get(tenant) ?? null);

/** @param {any} skylines @param {Map<string, number>} slots */
export const skylineLegend = (skylines, slots) => make("p", { class: "legend-line" },
  ...skylines.tenants.flatMap((/** @type {string|null} */ tenant) => [
    swatch(slotOf(tenant, slots)), make("span", { text: tenant ?? "others" })]));
