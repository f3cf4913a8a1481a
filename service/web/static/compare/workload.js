// A workload file (one JSON document a line) as the array that the server takes.

/** Most lines that the server takes in one comparison. */
export const MOST_LINES = 20_000;

/**
 * Reads a file; faults name their lines. Blank lines are left out.
 * @param {string} text
 * @returns {{lines: any[], faults: {line: number, message: string}[]}}
 */
export function readWorkload(text) {
  const lines = [];
  const faults = [];
  for (const [place, line] of text.replace(/^\ufeff/, "").split(/\r?\n/).entries()) {
    if (!line.trim()) continue;
    try {
      const value = JSON.parse(line);
      if (value === null || typeof value !== "object" || Array.isArray(value)) {
        faults.push({ line: place + 1, message: "write one object, such as {\"id\": …, \"rdl\": …}" });
      } else lines.push(value);
    } catch (error) {
      faults.push({ line: place + 1, message: /** @type {Error} */ (error).message });
    }
  }
  if (!lines.length && !faults.length) faults.push({ line: 1, message: "there is no line" });
  if (lines.length > MOST_LINES) faults.push({ line: MOST_LINES + 1, message: `at most ${MOST_LINES} lines are compared` });
  return { lines, faults: faults.slice(0, 20) };
}
