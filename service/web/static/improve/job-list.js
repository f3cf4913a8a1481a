// The optimisations that the server remembers, newest first.
import { make } from "../core/dom.js";
import { count, decimal } from "../core/numbers.js";
import { PagedTable } from "../core/table.js";
import { gapWords } from "./trace-view.js";

/**
 * @param {any[]} rows as `GET /v1/optimizations` tells them
 * @param {import("../core/times.js").Times} times
 */
export function jobTable(rows, times) {
  return new PagedTable({
    label: "Optimisations",
    rows,
    size: 20,
    empty: "None yet.",
    columns: [
      { title: "Started", of: (row) => make("a", { href: `/ui/optimizations/${encodeURIComponent(row.id)}`, text: times.ofText(row.created_at) }), sort: (row) => row.created_at },
      { title: "State", of: (row) => make("span", { class: `state ${row.state}`, text: row.state }), sort: (row) => row.state },
      { title: "Value before", of: (row) => first(row), sort: (row) => row.progress.trace?.[0]?.[1] ?? -1, number: true },
      { title: "Value found", of: (row) => shortly(row.progress.value), sort: (row) => row.progress.value ?? -1, number: true },
      { title: "Bound", of: (row) => shortly(row.progress.bound), sort: (row) => row.progress.bound ?? -1, number: true },
      { title: "Gap", of: (row) => (row.progress.value === undefined ? "–" : gapWords(row.progress.value, row.progress.bound)), sort: (row) => row.progress.gap ?? 9, number: true },
      { title: "Plan version", of: (row) => (row.progress.based_on ? count(row.progress.based_on) : "–"), sort: (row) => row.progress.based_on ?? 0, number: true },
    ],
  });
}

/** @param {any} row */
const first = (row) => shortly(row.progress.trace?.[0]?.[1]);

/** @param {number|null|undefined} value */
const shortly = (value) => (typeof value === "number" ? decimal(Math.round(value * 10) / 10) : "–");
