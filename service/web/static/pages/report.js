// The report of a month, or of other dates: what each tenant, queue or user was promised and used.
import { read, withQuery } from "../core/api.js";
import { $, make } from "../core/dom.js";
import { whenChanged } from "../core/live.js";
import { csvOf } from "../core/csv.js";
import { count, percent } from "../core/numbers.js";
import { attempt, say } from "../core/say.js";
import { openShell } from "../core/shell.js";
import { PagedTable } from "../core/table.js";
import { keepAddress, readAddress } from "../core/url.js";
import { instantOf } from "../core/when.js";

const DEFAULTS = { from: "", to: "", by: "tenant" };
const HOURS = ["promised", "used", "kept", "late", "broken", "refused"];
const NAMES = ["name", ...HOURS.map((name) => `${name}_core_hours`), "promised", "kept", "late", "degraded", "failed", "unused", "cancelled", "refused", "peak_cores", "peak_at"];

const { times, live, user } = await openShell();
const state = readAddress(DEFAULTS);
/** @type {any} */
let told = null;
let asked = 0;

const hours = (/** @type {number} */ value) => value.toLocaleString("en", { maximumFractionDigits: 1, minimumFractionDigits: 1 });
/** @param {any} row */
const brokenOf = (row) => row.degraded + row.failed + row.unused;

/** Promised (pale) with what was used and broken of it, against the most of all rows. @param {any} row */
function bar(row) {
  const most = Math.max(1e-9, ...told.rows.map((/** @type {any} */ one) => Math.max(one.promised_core_hours, one.used_core_hours)));
  const part = (/** @type {string} */ name, /** @type {number} */ value) => {
    const made = make("i", { class: name });
    made.style.width = `${Math.min(100, (100 * value) / most)}%`;
    return made;
  };
  const words = `${hours(row.promised_core_hours)} core-hours promised, ${hours(row.used_core_hours)} used`;
  return make("div", { class: "use", role: "img", "aria-label": words, title: words }, part("peak", row.promised_core_hours), part("used", row.used_core_hours));
}

const number = (/** @type {string} */ title, /** @type {(row: any) => number} */ of) => ({ title, number: true, of: (/** @type {any} */ row) => count(of(row)), sort: of });
const table = new PagedTable({
  label: "The report",
  rows: [],
  empty: "Nothing was promised or refused in that time.",
  columns: [
    { title: "Name", of: (row) => row.name ?? "all others", sort: (row) => row.name ?? "\uffff" },
    { title: "Hours", of: bar, sort: (row) => row.promised_core_hours },
    ...HOURS.map((name) => ({
      title: `${name[0].toUpperCase()}${name.slice(1)} h`, number: true,
      of: (/** @type {any} */ row) => hours(row[`${name}_core_hours`]), sort: (/** @type {any} */ row) => row[`${name}_core_hours`],
    })),
    number("Promises", (row) => row.promised), number("Kept", (row) => row.kept), number("Broken", brokenOf), number("Refused", (row) => row.refused),
    { title: "Peak cores", number: true, of: (row) => count(row.peak_cores), sort: (row) => row.peak_cores },
    { title: "Peak at", of: (row) => (row.peak_at ? times.ofText(row.peak_at) : "–"), sort: (row) => row.peak_at ?? "" },
  ],
});

async function refresh() {
  asked += 1;
  const mine = asked;
  const query = { from: instantOf(state.from, times) ?? "", to: instantOf(state.to, times) ?? "", by: state.by };
  if (query.to !== "" && Number(query.to) <= 0) return drawNothing();
  const answer = await read(withQuery("/v1/report", query));
  if (mine !== asked) return;
  told = answer;
  draw();
}

/** Before its origin a Plan has nothing to tell, such as of last month in its first one. */
function drawNothing() {
  told = null;
  $("shown").textContent = `There is nothing before the Plan begins, ${times.full(0)}.`;
  $("total").replaceChildren();
  table.set([]);
}

function draw() {
  if (!told) return;
  $("shown").textContent = `${times.ofText(told.from_at)} – ${times.ofText(told.to_at)}${user.seesAll ? "" : " · other tenants as totals"}`;
  const { total } = told;
  const figure = (/** @type {string} */ value, /** @type {string} */ what) => make("span", {}, make("b", { text: value }), ` ${what} `);
  $("total").replaceChildren(
    figure(hours(total.promised_core_hours), "core-hours promised"), figure(hours(total.used_core_hours), "used"),
    figure(percent(total.kept, total.promised), `of ${count(total.promised)} promises kept`), figure(count(brokenOf(total)), "broken"),
    figure(count(total.refused), `refused, ${hours(total.refused_core_hours)} core-hours`), figure(count(total.peak_cores), "cores at the peak"));
  table.set(told.rows);
}

/** Saves the rows and the total as CSV. */
function save() {
  if (!told) return;
  const text = csvOf(NAMES, [...told.rows.map((/** @type {any} */ row) => ({ ...row, name: row.name ?? "(others)" })), told.total]);
  const url = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  make("a", { href: url, download: `report-by-${told.by}-${told.from_at.slice(0, 10)}.csv` }).click();
  URL.revokeObjectURL(url);
  say("The report is saved as CSV.");
}

/** @param {Partial<typeof DEFAULTS>} change */
async function set(change) {
  Object.assign(state, change);
  for (const name of /** @type {const} */ (["from", "to", "by"])) $(name).value = state[name];
  keepAddress(state, DEFAULTS);
  await attempt($("trouble"), refresh);
}

/** The first instant of a month, as people write it, in the zone that is shown. @param {number} back how many months ago */
function monthStart(back) {
  const present = times.present();
  const wall = new Date(times.originMs + (present + times.offset(present)) * 1000);
  const first = new Date(Date.UTC(wall.getUTCFullYear(), wall.getUTCMonth() - back, 1));
  return first < new Date(times.originMs) ? "" : `${first.toISOString().slice(0, 10)} 00:00`;
}

for (const name of /** @type {const} */ (["from", "to", "by"])) {
  $(name).value = state[name];
  $(name).addEventListener("change", () => set({ [name]: $(name).value.trim() }));
}
$("form").addEventListener("submit", (/** @type {Event} */ event) => event.preventDefault());
$("this-month").addEventListener("click", () => set({ from: monthStart(0) || "0", to: "" }));
$("last-month").addEventListener("click", () => set({ from: monthStart(1) || "0", to: monthStart(0) || "0" }));
$("days").addEventListener("click", () => set({ from: "", to: "" }));
$("csv").addEventListener("click", save);
$("rows").append(table.element);
await attempt($("trouble"), refresh);
times.addEventListener("change", () => attempt($("trouble"), refresh));
whenChanged(live, () => attempt($("trouble"), refresh), { kinds: ["commit", "reset"], least: 15_000 });
document.body.dataset.ready = "";
