// Promises as bars by tenant and as columns over time; hatched by outcome, and the same in words.
import { make } from "../core/dom.js";
import { count, percent } from "../core/numbers.js";
import { OUTCOMES } from "./outcomes.js";

/** @param {import("./outcomes.js").Counts} one */
export function wordsOf(one) {
  const broken = OUTCOMES.slice(1).filter((name) => one[name]).map((name) => `${count(one[name])} ${name}`);
  return `${count(one.promised)} promised, ${count(one.kept)} kept${broken.length ? `, ${broken.join(", ")}` : ""}`;
}

/** @param {import("./outcomes.js").Counts} one @param {"width"|"height"} side @param {number} most */
function stack(one, side, most) {
  return OUTCOMES.filter((name) => one[name]).map((name) => {
    const part = make("i", { class: `outcome ${name}` });
    part.style[side] = `${(100 * one[name]) / most}%`;
    return part;
  });
}

/**
 * @param {(import("./outcomes.js").Counts & {tenant: string|null})[]} tenants
 * @param {(tenant: string|null) => Node} nameOf
 */
export function tenantBars(tenants, nameOf) {
  const most = Math.max(1, ...tenants.map((one) => one.promised));
  return make("div", {}, ...tenants.map((one) => make("div", { class: "tenant" },
    nameOf(one.tenant),
    make("span", { class: "stack", role: "img", "aria-label": wordsOf(one), title: wordsOf(one) }, ...stack(one, "width", most)),
    make("span", { class: "faint", text: `${percent(one.kept, one.promised)} kept` }))));
}

/**
 * @param {(import("./outcomes.js").Counts & {from: number, to: number})[]} parts of time
 * @param {import("../core/times.js").Times} times
 */
export function timeColumns(parts, times) {
  const most = Math.max(1, ...parts.map((one) => one.promised));
  const long = parts.length && parts[0].to - parts[0].from >= 86_400;
  const every = Math.max(1, Math.ceil(parts.length / 8));
  return make("figure", { class: "columns-picture", role: "group", "aria-label": "Promises over time, also as a table" },
    make("span", { class: "faint most", text: count(most) }),
    make("div", { class: "plot" }, ...parts.map((one, place) => make("div", { class: "slot" },
      make("span", { class: "tower", role: "img", "aria-label": `${times.span(one.from, one.to)}: ${wordsOf(one)}`, title: `${times.span(one.from, one.to)}: ${wordsOf(one)}` }, ...stack(one, "height", most).reverse()),
      make("small", { class: "faint", "aria-hidden": "true", text: place % every === 0 ? (long ? times.day(one.from) : times.clock(one.from)) : "" })))));
}

/** The legend of outcomes. */
export const legend = () => OUTCOMES.map((name) => make("span", {}, make("i", { class: `swatch outcome ${name}` }), name));
