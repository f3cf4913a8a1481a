// Rows as CSV for spreadsheets. Made in the browser, sent nowhere.

/**
 * A cell of a CSV file. What a spreadsheet would take for a formula begins with an apostrophe.
 * @param {unknown} value
 */
function cell(value) {
  const text = String(value ?? "");
  const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** @param {string[]} names of the columns @param {any[]} rows */
export const csvOf = (names, rows) => [names, ...rows.map((row) => names.map((name) => row[name]))]
  .map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
