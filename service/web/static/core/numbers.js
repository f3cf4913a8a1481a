// Numbers, amounts and durations as they are read.

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const LONG = new Intl.NumberFormat("en", { maximumFractionDigits: 3 });

/** A count with separators. @param {number} value */
export const count = (value) => WHOLE.format(value);

/** A number with up to three places. @param {number} value */
export const decimal = (value) => LONG.format(value);

/** A share as per cent. @param {number} part @param {number} [whole] */
export const percent = (part, whole = 1) => (whole ? `${SHORT.format((100 * part) / whole)} %` : "–");

/** "1 reservation", "3 reservations". @param {number} n @param {string} one @param {string} [many] */
export const counted = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

/** An amount of a resource: MiB become GiB or TiB. @param {number} value @param {string} unit */
export function amount(value, unit) {
  if (unit === "MiB") {
    if (value >= 1 << 20) return `${SHORT.format(value / (1 << 20))} TiB`;
    if (value >= 1024) return `${SHORT.format(value / 1024)} GiB`;
  }
  if (unit === "reservations") return counted(value, "reservation");
  return `${LONG.format(value)} ${unit}`.trim();
}

const UNITS = /** @type {Record<string, number>} */ ({ ms: 1e-3, s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 });

/** Seconds of a duration as files write it, "1h30m". @param {string|number} text */
export function secondsOf(text) {
  if (typeof text === "number") return text;
  const parts = [...text.matchAll(/([\d.]+)\s*(ms|[smhdw])/g)];
  return parts.length ? parts.reduce((sum, [, n, unit]) => sum + Number(n) * UNITS[unit], 0) : Number(text);
}

/** Seconds as people say them: "2 h 5 min". @param {number} seconds @returns {string} */
export function duration(seconds) {
  if (seconds < 0) return `−${duration(-seconds)}`;
  const parts = [];
  let left = Math.round(seconds);
  for (const [size, word] of /** @type {[number, string][]} */ ([[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]])) {
    const whole = Math.floor(left / size);
    if (whole) parts.push(`${whole} ${word}`);
    left -= whole * size;
  }
  return parts.slice(0, 2).join(" ") || `${LONG.format(seconds)} s`;
}
