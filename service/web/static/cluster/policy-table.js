// Policies with how much of each limit is used, now and at the peak to come.
import { make } from "../core/dom.js";
import { amount } from "../core/numbers.js";
import { PagedTable } from "../core/table.js";

/** What a policy counts together. @param {any} use */
export const accountOf = (use) => [use.tenant, use.queue, use.agent].filter(Boolean).join(" ") || "all";

/**
 * A row for each account of each limit; one for a policy without any.
 * @param {any[]} policies of /v1/policies
 */
export const policyRows = (policies) => policies.flatMap((one) => (one.use.length
  ? one.use.map((/** @type {any} */ use) => ({ name: one.name, type: one.policy.type, account: accountOf(use), ...use }))
  : [{ name: one.name, type: one.policy.type, account: [one.policy.tenant, one.policy.queue].filter(Boolean).join(" ") || "all", limit: null }]));

/** A bar: what is used now within the peak, against the limit. @param {any} row */
function useBar(row) {
  if (row.limit === null) return "–";
  const most = Math.max(row.limit, row.peak, 1e-9);
  const width = (/** @type {number} */ value) => `${Math.min(100, (100 * value) / most)}%`;
  const bar = (/** @type {string} */ name, /** @type {number} */ value) => {
    const made = make("i", { class: name });
    made.style.width = width(value); // the content policy allows no style attributes
    return made;
  };
  const words = `${amount(row.used, row.unit)} used, at most ${amount(row.peak, row.unit)} to come, of ${amount(row.limit, row.unit)}`;
  return make("div", { class: `use${row.peak > row.limit ? " over" : ""}`, role: "img", "aria-label": words, title: words },
    bar("peak", row.peak), bar("used", row.used));
}

/** @param {import("../core/times.js").Times} times */
export function policyTable(times) {
  const cell = (/** @type {string} */ name) => (/** @type {any} */ row) => (row.limit === null ? "–" : amount(row[name], row.unit));
  return new PagedTable({
    label: "Policies and their use",
    rows: [],
    size: 20,
    empty: "There is no policy: everybody may reserve everything.",
    columns: [
      { title: "Policy", of: (row) => row.name, sort: (row) => row.name },
      { title: "Type", of: (row) => row.type.replaceAll("_", " "), sort: (row) => row.type },
      { title: "Of", of: (row) => row.account, sort: (row) => row.account },
      { title: "Counts", of: (row) => (row.limit === null ? "–" : [row.resource, row.measure].filter(Boolean).join(", ")) },
      { title: "Use", of: useBar, sort: (row) => (row.limit ? row.peak / row.limit : -1) },
      { title: "Now", number: true, of: cell("used"), sort: (row) => row.used ?? 0 },
      { title: "Peak", number: true, of: cell("peak"), sort: (row) => row.peak ?? 0 },
      { title: "Peak at", of: (row) => (row.peak_at && row.peak > 0 ? times.ofText(row.peak_at) : "–") },
      { title: "Limit", number: true, of: cell("limit"), sort: (row) => row.limit ?? 0 },
    ],
  });
}
