// RDL laid out for reading: a part a line where it does not fit on one.

const WIDE = 64;

/**
 * The same expression over several lines.
 * @param {string} text canonical, on one line
 * @param {string} [indent]
 * @returns {string}
 */
export function layOut(text, indent = "") {
  if (indent.length + text.length <= WIDE) return indent + text;
  const open = opening(text);
  if (open < 0 || !text.endsWith(")")) return indent + text;
  const parts = split(text.slice(open + 1, -1));
  if (parts.length < 2) return indent + text;
  const inner = `${indent}  `;
  const lines = [];
  let short = "";
  for (const part of parts) {
    const isShort = part.length < 24 && !part.includes("(");
    if (isShort && short && inner.length + short.length + part.length + 2 <= WIDE) short += `, ${part}`;
    else {
      if (short) lines.push(inner + short);
      short = isShort ? part : "";
      if (!isShort) lines.push(layOut(part, inner));
    }
  }
  if (short) lines.push(inner + short);
  return `${indent}${text.slice(0, open)}(\n${lines.join(",\n")}\n${indent})`;
}

/** Where the outermost bracket opens. @param {string} text */
function opening(text) {
  const open = text.indexOf("(");
  return open > 0 && /^[\w: -]+$/.test(text.slice(0, open)) ? open : -1;
}

/** Parts between commas that stand in no bracket. @param {string} text */
function split(text) {
  const parts = [];
  let depth = 0;
  let begin = 0;
  for (let n = 0; n < text.length; n += 1) {
    if ("(<[".includes(text[n])) depth += 1;
    else if (")]".includes(text[n]) || (text[n] === ">" && text[n - 1] !== "-")) depth -= 1;
    else if (text[n] === "," && depth === 0) {
      parts.push(text.slice(begin, n).trim());
      begin = n + 1;
    }
  }
  return [...parts, text.slice(begin).trim()];
}

/**
 * The outermost window, seconds from the origin; null where there is none.
 * @param {string} text canonical
 * @returns {[number, number]|null}
 */
export function windowOf(text) {
  const found = /^window\(.*,\s*(-?[\d.]+),\s*(-?[\d.]+)\)$/s.exec(text);
  return found ? [Number(found[1]), Number(found[2])] : null;
}
