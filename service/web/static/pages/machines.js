// Machines: one cell a machine by group; promised and running stay apart.
import { Span } from "../chart/span.js";
import { call, read, withQuery } from "../core/api.js";
import { $, make } from "../core/dom.js";
import { addKeys } from "../core/keys.js";
import { whenChanged } from "../core/live.js";
import { count, counted, percent } from "../core/numbers.js";
import { attempt, say } from "../core/say.js";
import { openShell } from "../core/shell.js";
import { swatch } from "../core/svg.js";
import { PagedTable } from "../core/table.js";
import { keepAddress, readAddress } from "../core/url.js";
import { instantOf } from "../core/when.js";
import { DispatchTable } from "../machines/dispatch-table.js";
import { MachineLanes } from "../machines/machine-lanes.js";
import { MachineMap, wordsOf } from "../machines/machine-map.js";
import { machinePane, nextWords } from "../machines/machine-pane.js";

/** How many machines are shown at once, and how many lanes. */
const MOST = 2000;
const MOST_LANES = 500;
const HOUR = 3600;
const DEFAULTS = { group: "", by: "both", at: "", first: "0", sel: "", view: "" };

const { user, times, live, cluster } = await openShell();
const state = readAddress(DEFAULTS);
/** @type {any[]} */
let machines = [];
let leftOut = 0;
/** Counts what is asked: an answer that comes after a later question is not shown. */
let asked = 0;
/** What the pane shows, so that it is left alone while that stays. */
let inPane = "";
const dispatched = user.may("operator") ? new DispatchTable($("dispatched"), times) : null;
const map = new MachineMap($("map"), (machine, open) => choose(machine, open));

const span = new Span(0, HOUR, 900);
const lanes = new MachineLanes($("lanes"), span, times, (name) => choose({ name }, true));

const table = new PagedTable({
  label: "Machines",
  rows: [],
  mark: (one) => (one.name === state.sel ? "chosen" : null),
  columns: [
    { title: "Machine", of: (one) => make("button", { type: "button", class: "quiet link", text: one.name, on: { click: () => choose(one, true) } }), sort: (one) => one.index },
    { title: "Group", of: (one) => one.group },
    { title: "State", of: (one) => (one.up ? "up" : `down: ${one.outage.kind}, back ${times.full(one.outage.end)}`) },
    { title: "Next outage", of: (one) => nextWords(one, times) },
    { title: "Promised", number: true, of: (one) => percent(one.promised_share), sort: (one) => one.promised_share },
    { title: "Running", number: true, of: (one) => percent(one.used_share), sort: (one) => one.used_share },
  ],
});

/** What the calls ask for: the instant; empty: now. */
const instant = () => instantOf(state.at, times) ?? "";

async function refresh() {
  asked += 1;
  const mine = asked;
  const most = state.view === "lanes" ? MOST_LANES : MOST;
  const query = { group: state.group, at: instant(), first: state.first, most, brief: true };
  const [told, shown] = await Promise.all([read(withQuery("/v1/machines", query)), state.view === "lanes" ? readLanes(most) : null]);
  if (mine !== asked) return;
  if (shown) showLanes(shown);
  if (!instant()) times.hear(told.at);
  machines = told.machines;
  leftOut = told.left_out;
  draw();
  if (state.sel) await openPane(false);
}

/** The lanes from the hour before the instant to the horizon. @param {number} most */
function readLanes(most) {
  const at = instant() || `${Math.floor(times.present())}`;
  const from = /^-?\d+(\.\d+)?$/.test(at) ? Math.max(0, Number(at) - HOUR) : at;
  return read(withQuery("/v1/machines/lanes", { group: state.group, first: state.first, most, from }));
}

/** @param {any} told */
function showLanes(told) {
  const isFirst = span.last <= HOUR;
  span.bound(told.from, told.to);
  if (isFirst) span.show(told.from, Math.min(told.to, told.from + 25 * HOUR));
  lanes.show(told.lanes);
  $("tenants").replaceChildren(...lanes.tenants().map(([name, slot]) => make("span", {}, swatch(slot), name ?? "other tenants")));
}

function draw() {
  const isNow = !instant();
  map.show(machines, isNow ? state.by : "promised");
  table.set(machines);
  const away = machines.filter((one) => !one.up).length;
  const mean = (/** @type {string} */ name) => percent(machines.reduce((sum, one) => sum + one[name], 0), machines.length);
  const running = isNow ? `, ${mean("used_share")} taken by what runs` : "";
  $("summary").textContent = `${counted(machines.length, "machine")}, ${count(away)} down · on average ${mean("promised_share")} promised${running}`;
  showLeftOut();
  const notes = [];
  if (!isNow) notes.push("What runs is known for now only: shown is what the Plan promises at that time.");
  if (!machines.some((one) => one.promised_share > 0)) {
    notes.push(cluster.promises?.level === "placed" ? "Nothing is promised on these machines at this time."
      : "No machine is named in what the Plan promises here: this cluster promises totals. The Plan page shows those.");
  }
  $("note").replaceChildren(...notes.map((text) => make("p", { class: "faint", text })));
}

function showLeftOut() {
  const first = Number(state.first);
  const most = state.view === "lanes" ? MOST_LANES : MOST;
  if (!leftOut) return $("left-out").replaceChildren();
  const move = (/** @type {string} */ text, /** @type {number} */ to, /** @type {boolean} */ there) => make("button", {
    type: "button", text, disabled: !there, on: { click: () => set({ first: String(to) }) },
  });
  $("left-out").replaceChildren(make("div", { class: "note row", role: "status" },
    make("span", { text: `Shown are machines ${count(first + 1)} to ${count(first + machines.length)}; ${count(leftOut)} are left out.` }),
    move("Before", Math.max(0, first - most), first > 0),
    move("Next", first + most, first + machines.length < machines.length + leftOut)));
}

/** @param {Partial<typeof DEFAULTS>} change */
async function set(change) {
  Object.assign(state, change);
  keepAddress(state, DEFAULTS);
  await attempt($("trouble"), refresh);
}

/** @param {any} machine @param {boolean} open */
async function choose(machine, open) {
  state.sel = machine.name;
  keepAddress(state, DEFAULTS);
  map.mark(machine.name);
  lanes.mark(machine.name);
  table.show();
  const known = machines.find((one) => one.name === machine.name);
  say(known ? wordsOf(known) : machine.name);
  if (open || !$("pane").hidden) await attempt($("trouble"), () => openPane(open));
}

/** @param {boolean} focus */
async function openPane(focus) {
  const wanted = state.sel;
  const { body } = await call("GET", withQuery("/v1/machines", { name: wanted, at: instant() }));
  if (wanted !== state.sel) return;
  const told = JSON.stringify([body.machines[0], times.zone, state.at]);
  if (told !== inPane) $("pane").replaceChildren(...machinePane(body.machines[0], { times, present: !instant(), close }));
  inPane = told;
  $("pane").hidden = false;
  $("both").classList.add("open");
  if (focus) {
    map.mark(wanted);
    $("pane-title").focus();
  } else map.draw();
}

function close() {
  const had = $("pane").contains(document.activeElement);
  $("pane").hidden = true;
  $("both").classList.remove("open");
  state.sel = "";
  keepAddress(state, DEFAULTS);
  map.draw();
  if (had) $(state.view || "map").focus();
}

function showView() {
  for (const [id, view] of [["map", ""], ["lanes", "lanes"], ["table", "table"]]) $(id).hidden = state.view !== view;
  $("legend").hidden = $("filled-by").hidden = state.view !== "";
  $("in-lanes").hidden = state.view !== "lanes";
  for (const input of /** @type {NodeListOf<HTMLInputElement>} */ (document.querySelectorAll("input[name=view]"))) input.checked = input.value === state.view;
  keepAddress(state, DEFAULTS);
}

/** Shows the next view, or the one chosen. @param {string} [view] */
async function otherView(view) {
  const views = ["", "lanes", "table"];
  state.view = view ?? views[(views.indexOf(state.view) + 1) % views.length];
  showView();
  if (state.view === "lanes") await attempt($("trouble"), refresh);
}

/** @param {"left"|"right"|"up"|"down"|"first"|"last"} way */
function move(way) {
  if (state.view !== "lanes") map.move(way);
  else if (way === "left" || way === "right") span.pan(way === "left" ? -0.2 : 0.2);
  else {
    const name = lanes.beside(/** @type {Record<string, number>} */ ({ up: -1, down: 1, first: -1e9, last: 1e9 })[way]);
    if (name) choose({ name }, false);
  }
}

$("group").append(...cluster.machines.map((/** @type {any} */ one) => make("option", { value: one.name, text: `${one.name} (${one.count})` })));
$("group").value = state.group;
$("at").value = state.at;
for (const radio of document.querySelectorAll("input[name=by]")) {
  const input = /** @type {HTMLInputElement} */ (radio);
  input.checked = input.value === state.by;
  input.addEventListener("change", () => set({ by: input.value }));
}
$("table").append(table.element);
$("group").addEventListener("change", () => set({ group: $("group").value, first: "0" }));
$("at").addEventListener("change", () => set({ at: $("at").value.trim() }));
for (const input of /** @type {NodeListOf<HTMLInputElement>} */ (document.querySelectorAll("input[name=view]"))) input.addEventListener("change", () => otherView(input.value));
$("whole").addEventListener("click", () => span.whole());
if (!["", "lanes", "table"].includes(state.view)) state.view = "";
showView();
const showDispatched = () => attempt($("trouble"), async () => dispatched?.refresh());
await attempt($("trouble"), refresh);
await showDispatched();
addKeys(
  { keys: ["ArrowLeft"], shown: "← →", says: "The machine before, the next", act: () => move("left") },
  { keys: ["ArrowRight"], shown: "→", says: "The next machine", act: () => move("right") },
  { keys: ["ArrowUp"], shown: "↑ ↓", says: "A row up, a row down", act: () => move("up") },
  { keys: ["ArrowDown"], shown: "↓", says: "A row down", act: () => move("down") },
  { keys: ["Home"], says: "The first machine", act: () => move("first") },
  { keys: ["End"], says: "The last one", act: () => move("last") },
  { keys: ["Enter"], says: "Open the machine", act: () => { if (state.sel) attempt($("trouble"), () => openPane(true)); } },
  { keys: ["Escape"], says: "Close it", act: close },
  { keys: ["b"], says: "Cells, lanes, table", act: () => otherView() },
  { keys: ["+", "="], shown: "+ −", says: "Lanes: from nearer, from farther away", act: () => span.zoom(0.7) },
  { keys: ["-"], shown: "−", says: "Lanes: from farther away", act: () => span.zoom(1 / 0.7) },
);
times.addEventListener("change", () => {
  draw();
  showDispatched();
});
whenChanged(live, () => attempt($("trouble"), refresh), { kinds: ["commit", "reset", "cluster", "tick"], least: 2000 });
// Time passes: slots and outages begin and end, and dispatch tables are made.
setInterval(() => {
  if (document.hidden) return;
  attempt($("trouble"), refresh);
  showDispatched();
}, 30_000);
document.body.dataset.ready = "";
