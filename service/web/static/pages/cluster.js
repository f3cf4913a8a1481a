// Cluster: groups, outages on a time axis, what an outage would do, and the end of one.
import { offerSaving } from "../chart/save.js";
import { Span } from "../chart/span.js";
import { affectedElement, affectedWords, namesOf, recursWords } from "../cluster/affected.js";
import { OutageForm } from "../cluster/outage-form.js";
import { OutageLanes } from "../cluster/outage-lanes.js";
import { PolicyBars } from "../cluster/policy-bars.js";
import { policyRows, policyTable } from "../cluster/policy-table.js";
import { call, read } from "../core/api.js";
import { confirmed } from "../core/dialog.js";
import { $, make } from "../core/dom.js";
import { addKeys } from "../core/keys.js";
import { whenChanged } from "../core/live.js";
import { count, counted, secondsOf } from "../core/numbers.js";
import { attempt, say } from "../core/say.js";
import { openShell } from "../core/shell.js";
import { PagedTable } from "../core/table.js";
import { keepAddress, readAddress } from "../core/url.js";

const { user, times, live, cluster } = await openShell();
const mayChange = user.may("operator");
const shown = readAddress({ from: "", to: "", sel: "" });
const span = new Span(0, 86_400, 600);
const lanes = new OutageLanes($("picture"), span, times, (outage) => choose(outage));
/** @type {{cluster: any, outages: any[], ghost: any, chosen: string}} */
const state = { cluster, outages: [], ghost: null, chosen: shown.sel };

const groupTable = new PagedTable({
  label: "Groups of machines",
  rows: [],
  size: 20,
  columns: [
    { title: "Group", of: (one) => (one.resources ? make("a", { href: `/ui/machines?group=${encodeURIComponent(one.name)}`, text: one.name }) : one.name), sort: (one) => one.name },
    { title: "Count", number: true, of: (one) => count(one.count), sort: (one) => one.count },
    { title: "Down now", number: true, of: (one) => count(down(one.name)), sort: (one) => down(one.name) },
    { title: "Each has", of: (one) => (one.resources ? Object.entries(one.resources).map(([name, amount]) => `${amount} ${name}`).join(", ") : "a pool of the whole cluster") },
    { title: "Labels", of: (one) => (one.labels ?? []).join(", ") || "–" },
  ],
});

const outageTable = new PagedTable({
  label: "Outages that are not over",
  rows: [],
  size: 20,
  empty: "All machines are up, and no outage is planned.",
  mark: (one) => (one.id === state.chosen ? "chosen" : null),
  columns: [
    { title: "Machines", of: (one) => make("details", {}, make("summary", { text: `${count(one.names.length)} of ${one.machines}` }), namesOf(one)), sort: (one) => one.machines },
    { title: "Kind", of: (one) => make("span", {}, make("i", { class: `swatch ${one.kind}`, "aria-hidden": "true" }), ` ${one.kind}`), sort: (one) => one.kind },
    { title: "From", of: (one) => times.full(one.start), sort: (one) => one.start },
    { title: "Back at", of: (one) => times.full(one.end), sort: (one) => one.end },
    { title: "Recurs", of: (one) => recursWords(one) },
    { title: "Reason", of: (one) => [one.reason, one.by && `by ${one.by}`].filter(Boolean).join(", ") || "–" },
    ...(mayChange ? [{ title: "End it", of: (/** @type {any} */ one) => make("button", { type: "button", class: "noprint", text: "End", "aria-label": `End the ${one.kind} of ${one.names.length} of ${one.machines}`, on: { click: () => end(one) } }) }] : []),
  ],
});

const policies = policyTable(times);
const policyBars = new PolicyBars($("policies-picture"), times, secondsOf(cluster.step));

/** Groups of machines, and pools: both have outages. @param {any} described */
const groupsOf = (described) => [...described.machines, ...(described.pools ?? [])];

/** @param {string} group */
function down(group) {
  const now = times.present();
  const names = state.outages.filter((one) => one.machines === group && one.start <= now && now < one.end).flatMap((one) => one.names);
  return new Set(names).size;
}

async function refresh() {
  const [described, told, ruled] = await Promise.all([read("/v1/cluster"), read("/v1/cluster/outages"), read("/v1/policies")]);
  state.cluster = described;
  state.outages = told.outages;
  draw();
  policies.set(policyRows(ruled.policies));
  await policyBars.refresh(ruled.policies, times.present() + secondsOf(described.horizon));
  $("policies-say").hidden = $("policies-picture").hidden;
}

function draw() {
  const groups = state.cluster.machines;
  groupTable.set(groupsOf(state.cluster));
  outageTable.set(state.outages);
  lanes.show(groupsOf(state.cluster), state.outages.flatMap(occurrencesOf), state.ghost);
  lanes.mark(state.chosen);
  const all = groups.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one.count, 0);
  const gone = groups.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + down(one.name), 0);
  $("summary").textContent = `${counted(all, "machine")} in ${counted(groups.length, "group")} · ${gone ? `${count(gone)} down now` : "all up"}`;
  const { queues, policies, promises, step: length, horizon } = state.cluster;
  const rules = [
    `planned in steps of ${length}, ${horizon} ahead`,
    promises?.level && `promises are ${promises.level}`,
    queues?.length && `queues ${queues.map((/** @type {any} */ one) => one.name).join(", ")}`,
    policies?.length && counted(policies.length, "policy", "policies"),
  ];
  $("rules").textContent = rules.filter(Boolean).join(" · ");
}

/** One that recurs as each of its occurrences. @param {any} outage */
function occurrencesOf(outage) {
  return outage.occurrences?.length ? outage.occurrences.map((/** @type {any} */ one) => ({ ...outage, ...one })) : [outage];
}

/** @param {any} outage */
function choose(outage) {
  state.chosen = outage?.id ?? "";
  keepAddress({ sel: state.chosen });
  outageTable.show();
  lanes.mark(state.chosen);
  if (!outage) return;
  if (outage.end < span.from || outage.start > span.to) span.center(outage.start);
  const place = state.outages.indexOf(outage) + 1;
  say(`${place} of ${state.outages.length}: ${outage.kind}, ${outage.names.length} of ${outage.machines}, ${times.span(outage.start, outage.end)}`);
}

/** @param {number} by */
function step(by) {
  if (!state.outages.length) return;
  const here = state.outages.findIndex((one) => one.id === state.chosen);
  const next = here < 0 ? (by > 0 ? 0 : state.outages.length - 1) : Math.min(Math.max(here + by, 0), state.outages.length - 1);
  choose(state.outages[next]);
}

/** @param {any} outage */
async function end(outage) {
  const what = `${count(outage.names.length)} of ${outage.machines}, ${times.span(outage.start, outage.end)}`;
  const text = outage.start > times.present() ? "It has not begun, and will not." : "They are up again from now on. Degraded reservations are restored where they fit.";
  if (!(await confirmed({ title: `End the ${outage.kind} of ${what}?`, text, yes: "End it" }))) return;
  const done = await attempt($("ended"), () => call("DELETE", `/v1/cluster/outages/${encodeURIComponent(outage.id)}`));
  if (done) {
    $("ended").replaceChildren(make("p", { class: "note", id: "ended-note", tabindex: "-1", text: `Ended: ${what}.` }), affectedElement(done.body, false));
    $("ended-note").focus();
    say(`Ended. ${affectedWords(done.body, false)}`);
  }
  await attempt($("trouble"), refresh);
}

function whole() {
  const now = times.present();
  const starts = state.outages.map((one) => one.start);
  const ends = state.outages.map((one) => one.end);
  const minute = (/** @type {number} */ at) => Math.round(at / 60) * 60;
  span.show(minute(Math.min(now - 3600, ...starts)), minute(Math.max(now + 6 * 3600, ...ends) + 1800));
}

function showSpan() {
  $("shown").textContent = times.span(Math.round(span.from), Math.round(span.to));
  keepAddress({ from: Math.round(span.from), to: Math.round(span.to) });
}

await attempt($("trouble"), async () => {
  times.hear((await read("/v1/plan/counts")).now);
  await refresh();
});
$("groups").append(groupTable.element);
$("outages").append(outageTable.element);
$("policies").append(policies.element);
const far = Math.max(times.present() + 30 * 86_400, ...state.outages.map((one) => one.end + 3600));
span.bound(Math.min(times.present() - 7 * 86_400, ...state.outages.map((one) => one.start - 3600)), far);
if (shown.from && shown.to) span.show(Number(shown.from), Number(shown.to));
else whole();
$("shown").textContent = times.span(Math.round(span.from), Math.round(span.to));
span.addEventListener("change", showSpan);
times.addEventListener("change", () => { showSpan(); draw(); });
$("whole").addEventListener("click", whole);
offerSaving([{ stage: lanes.stage, draw: (g, width, height) => lanes.draw(g, width, height) }], () => "outages",
  { png: $("save-png"), svg: $("save-svg"), print: $("print") });
if (mayChange) {
  const form = new OutageForm(times, groupsOf(state.cluster), {
    ghost: (outage) => {
      state.ghost = outage;
      $("ghost-kind").hidden = !outage;
      draw();
    },
    posted: () => attempt($("trouble"), refresh),
  });
  addKeys({ keys: ["Ctrl+Enter"], says: "What if?", field: true, act: () => form.tryOut() });
}
addKeys(
  { keys: ["ArrowLeft"], shown: "← →", says: "Earlier, later", act: () => span.pan(-0.1) },
  { keys: ["ArrowRight"], shown: "→", says: "Later", act: () => span.pan(0.1) },
  { keys: ["+", "="], says: "Closer", act: () => span.zoom(0.7) },
  { keys: ["-"], says: "From farther away", act: () => span.zoom(1 / 0.7) },
  { keys: ["0"], says: "All outages", act: whole },
  { keys: ["n"], says: "Now", act: () => span.center(times.present()) },
  { keys: ["ArrowDown"], shown: "↑ ↓", says: "Choose an outage", act: () => step(1) },
  { keys: ["ArrowUp"], shown: "↑", says: "The one before", act: () => step(-1) },
  { keys: ["Escape"], says: "Choose none", act: () => choose(null) },
);
whenChanged(live, () => attempt($("trouble"), refresh), { kinds: ["cluster", "reset"] });
// Time passes: outages begin and end, and the line of the present moves.
setInterval(() => { if (!document.hidden) attempt($("trouble"), refresh); }, 30_000);
document.body.dataset.ready = "";
