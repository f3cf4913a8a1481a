// The audit as a file: CSV for spreadsheets, JSON for programs. Made in the browser, sent nowhere.

export const NAMES = ["number", "at", "user", "address", "call", "kind", "tenant", "about", "detail", "version"];

/**
 * A cell of a CSV file. What a spreadsheet would take for a formula begins with an apostrophe.
 * @param {unknown} value
 */
function cell(value) {
  const text = String(value ?? "");
  const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** @param {any[]} rows */
export const csvOf = (rows) => [NAMES, ...rows.map((row) => NAMES.map((name) => row[name]))]
  .map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
