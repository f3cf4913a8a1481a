// Promises: kept, unused, degraded and failed by tenant and over time, and what is left of the budget.
import { swatch } from "../chart/skyline.js";
import { read, withQuery } from "../core/api.js";
import { $, make } from "../core/dom.js";
import { addKeys } from "../core/keys.js";
import { whenChanged } from "../core/live.js";
import { count, decimal, duration, percent } from "../core/numbers.js";
import { attempt, say } from "../core/say.js";
import { openShell } from "../core/shell.js";
import { PagedTable } from "../core/table.js";
import { theme } from "../core/theme.js";
import { keepAddress, readAddress } from "../core/url.js";
import { budgetOf, sumOf } from "../promises/outcomes.js";
import { legend, tenantBars, timeColumns, wordsOf } from "../promises/pictures.js";

const DEFAULTS = { days: "30", aim: "99", view: "" };
/** Parts of time by days shown, seconds. */
const STEPS = /** @type {Record<string, number>} */ ({ 1: 3600, 7: 6 * 3600, 30: 86_400 });
const DAY = 86_400;

const { user, times, live } = await openShell();
const state = readAddress(DEFAULTS);
/** @type {any} */
let told = { tenants: [], times: [] };
/** Counts what is asked: an answer that comes after a later question is not shown. */
let asked = 0;
/** @type {Map<string, number>} */
let slots = new Map();

const number = (/** @type {string} */ title, /** @type {string} */ name) => ({
  title, number: true, of: (/** @type {any} */ one) => count(one[name]), sort: (/** @type {any} */ one) => one[name],
});
const COUNTS = [number("Promised", "promised"), number("Kept", "kept"), number("Unused", "unused"), number("Late", "late"), number("Degraded", "degraded"),
  number("Failed", "failed"), number("Moved", "moved")];

const tenantTable = new PagedTable({
  label: "Promises by tenant",
  rows: [],
  empty: "Nothing was promised in this time.",
  columns: [
    { title: "Tenant", of: (one) => nameOf(one.tenant), sort: (one) => one.tenant ?? "\uffff" },
    ...COUNTS, number("Given up", "cancelled"), number("Below now", "below"),
    { title: "Time below", number: true, of: (one) => (one.below_s ? duration(one.below_s) : "–"), sort: (one) => one.below_s },
    { title: "Share kept", number: true, of: (one) => percent(one.kept, one.promised), sort: (one) => (one.promised ? one.kept / one.promised : 1) },
    { title: "Budget left", number: true, of: (one) => budgetText(budgetOf(one, aim())), sort: (one) => budgetOf(one, aim()).left },
  ],
});

const timeTable = new PagedTable({
  label: "Promises over time",
  rows: [],
  empty: "Nothing was promised in this time.",
  columns: [{ title: "Time", of: (one) => times.span(one.from, one.to), sort: (one) => one.from }, ...COUNTS],
});

const aim = () => Math.min(100, Math.max(50, Number(state.aim) || 99));

/** @param {{left: number}} budget */
const budgetText = ({ left }) => (left < 0 ? `${decimal(Math.round(10 * -left) / 10)} over` : decimal(Math.round(10 * left) / 10));

/** A tenant with its colour; null: all others. @param {string|null} tenant */
function nameOf(tenant) {
  const mark = swatch(tenant === null ? null : slots.get(tenant) ?? null);
  return make("span", { class: "name" }, mark, tenant === null ? "all others" : tenant);
}

async function refresh() {
  asked += 1;
  const mine = asked;
  const present = (await read("/v1/plan/counts")).now;
  times.hear(present);
  const all = state.days === "all";
  const to = Math.max(1, Math.ceil(present));
  const from = all ? 0 : Math.max(0, to - Number(state.days) * DAY);
  const step = all ? Math.max(3600, Math.ceil(to / 30 / 3600) * 3600) : STEPS[state.days];
  const [counts, tenants] = await Promise.all([read(withQuery("/v1/promises", { from, to, step: `${step}s` })), read("/v1/tenants")]);
  if (mine !== asked) return;
  told = { ...counts, step };
  slots = new Map(tenants.tenants.map((/** @type {any} */ one) => [one.name, one.slot]));
  draw();
}

function draw() {
  $("shown").textContent = `${times.span(Math.round(told.from), Math.round(told.to))}${user.seesAll ? "" : " · other tenants as totals"}`;
  const sum = sumOf(told.tenants);
  showBudget(sum);
  $("bars").replaceChildren(tenantBars(told.tenants, nameOf));
  tenantTable.set(told.tenants);
  timeTable.set(told.times);
  $("columns").replaceChildren(timeColumns(told.times, times));
  $("each").textContent = told.times.length ? `each ${duration(told.step)}; a promise counts where it ends` : "";
}

/** @param {import("../promises/outcomes.js").Counts} sum */
function showBudget(sum) {
  const { allowed, broken, left, used } = budgetOf(sum, aim());
  const rail = make("i", { class: left < 0 ? "used over" : "used" });
  rail.style.width = `${100 * Math.min(1, used)}%`;
  const whole = decimal(Math.round(10 * allowed) / 10);
  const words = left < 0 ? `The budget is overdrawn: ${count(broken)} broken, where ${whole} may be.` : `${count(broken)} broken, where ${whole} may be.`;
  $("budget").replaceChildren(
    make("p", { class: "figures" },
      figure(percent(sum.kept, sum.promised), "kept"), figure(count(sum.promised), "promised"),
      figure(budgetText({ left }), left < 0 ? "broken promises" : "may still be broken"),
      figure(count(sum.below), "below now"), figure(sum.below_s ? duration(sum.below_s) : "none", "time below")),
    make("span", { class: "budget", role: "img", "aria-label": words }, rail),
    make("p", { class: left < 0 ? "bad" : "faint", text: words }));
}

/** @param {string} value @param {string} what */
const figure = (value, what) => make("span", {}, make("b", { text: value }), ` ${what} `);

/** @param {Partial<typeof DEFAULTS>} change */
async function set(change) {
  Object.assign(state, change);
  keepAddress(state, DEFAULTS);
  await attempt($("trouble"), refresh);
  say(wordsOf(sumOf(told.tenants)));
}

function showView() {
  const asTable = state.view === "table";
  $("columns").hidden = asTable;
  $("times").hidden = !asTable;
  $("as-table").setAttribute("aria-pressed", String(asTable));
  keepAddress(state, DEFAULTS);
}

function toggleView() {
  state.view = state.view === "table" ? "" : "table";
  showView();
}

/** @param {number} by */
function otherTime(by) {
  const known = ["1", "7", "30", "all"];
  const next = known[Math.min(Math.max(known.indexOf(state.days) + by, 0), known.length - 1)];
  /** @type {HTMLInputElement} */ (document.querySelector(`input[name=days][value="${next}"]`)).checked = true;
  set({ days: next });
}

if (!(state.days in STEPS)) state.days = state.days === "all" ? "all" : "30";
for (const found of document.querySelectorAll("input[name=days]")) {
  const input = /** @type {HTMLInputElement} */ (found);
  input.checked = input.value === state.days;
  input.addEventListener("change", () => set({ days: input.value }));
}
$("aim").value = state.aim;
$("aim").addEventListener("change", () => {
  state.aim = $("aim").value;
  $("aim").value = aim();
  keepAddress(state, DEFAULTS);
  draw();
  say($("budget").textContent);
});
$("legend").append(...legend());
$("tenants").append(tenantTable.element);
$("times").append(timeTable.element);
$("as-table").addEventListener("click", toggleView);
showView();
await attempt($("trouble"), refresh);
addKeys(
  { keys: ["-"], shown: "- +", says: "A longer time, a shorter one", act: () => otherTime(1) },
  { keys: ["+", "="], says: "A shorter time", act: () => otherTime(-1) },
  { keys: ["b"], says: "Over time: as table, as picture", act: toggleView },
);
times.addEventListener("change", draw);
theme.addEventListener("change", draw);
whenChanged(live, () => attempt($("trouble"), refresh), { kinds: ["commit", "reset"], least: 5000 });
document.body.dataset.ready = "";
