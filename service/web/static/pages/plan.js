// The Plan: what is held over time, and by whom; the page that stays open all day.
import { Gantt } from "../chart/gantt.js";
import { legend, Skyline } from "../chart/skyline.js";
import { Span } from "../chart/span.js";
import { read } from "../core/api.js";
import { $, make } from "../core/dom.js";
import { whenChanged } from "../core/live.js";
import { count } from "../core/numbers.js";
import { attempt, say } from "../core/say.js";
import { openShell } from "../core/shell.js";
import { theme } from "../core/theme.js";
import { keepAddress, readAddress } from "../core/url.js";
import { BarBook } from "../plan/bar-book.js";
import { offerPictures } from "../plan/save-plan.js";
import { planKeys } from "../plan/plan-keys.js";
import { Lists } from "../plan/lists.js";
import { Pane } from "../plan/pane.js";
import { Series } from "../plan/series.js";
import { followSkyline } from "../plan/skyline-words.js";

const DAY = 86_400;
const DEFAULTS = { from: "", to: "", resource: "", by: "tenant", layer: "", q: "", order: "tenant", sel: "", view: "" };

const shell = await openShell();
const shown = readAddress(DEFAULTS);
const span = new Span(0, DAY);
const series = new Series(span);
const book = new BarBook();
const skyline = new Skyline($("skyline"), span, shell.times);
const gantt = new Gantt($("gantt"), span, shell.times);
const lists = new Lists({ shell, span, book, gantt, shown, keep });
const pane = new Pane(shell, gantt, (id) => keep({ sel: id }));

/** Writes what is shown into the address. @param {Record<string, string>} changed */
function keep(changed) {
  Object.assign(shown, changed);
  keepAddress(shown, DEFAULTS);
}

function drawLegend() {
  const alone = shown.layer === "" ? undefined : shown.layer;
  $("legend").replaceChildren(...legend(series.body.layers, (name) => showAlone(name), alone));
}

/** Shows one layer alone; the same again: all. @param {string|null} name */
function showAlone(name) {
  keep({ layer: name === null || shown.layer === name ? "" : name });
  skyline.alone = shown.layer === "" ? undefined : shown.layer;
  skyline.stage.ask();
  drawLegend();
  lists.arrange();
  say(shown.layer ? `${shown.layer} alone` : "all layers");
}

function drawResources() {
  const pools = (shell.cluster.pools ?? []).map((/** @type {any} */ one) => one.name);
  const names = [...new Set([...shell.cluster.machines.flatMap((/** @type {any} */ one) => Object.keys(one.resources)), ...pools])];
  $("resources").append(...names.map((name) => make("label", {},
    make("input", { type: "radio", name: "resource", value: name, checked: name === series.resource }), name)));
  $("resources").addEventListener("change", (/** @type {any} */ event) => turn({ resource: event.target.value }));
  $("by").value = shown.by;
  $("by").addEventListener("change", () => turn({ by: $("by").value, layer: "" }));
}

/** Shows another resource or division. @param {Record<string, string>} changed */
async function turn(changed) {
  keep(changed);
  skyline.alone = shown.layer === "" ? undefined : shown.layer;
  await attempt($("trouble"), () => series.turn(shown.resource || series.resource, shown.by));
  lists.arrange();
}

/** Tells what became of the requests of this day. */
async function drawCounts() {
  const now = shell.times.present();
  const zone = shell.times.offset(now) + shell.times.originMs / 1000;
  const day = Math.max(0, Math.floor((now + zone) / DAY) * DAY - zone);
  const body = await read(`/v1/plan/counts?from=${Math.floor(day)}&to=${Math.ceil(day + DAY)}`);
  const { states } = body;
  const held = states.accepted + states.active + states.completed;
  $("counts").replaceChildren(...[["accepted", held], ["degraded", states.degraded], ["failed", states.failed], ["refused", states.refused]]
    .filter(([word, n]) => n || word !== "failed")
    .map(([word, n]) => make("span", {}, make("b", { text: count(n) }), String(word))),
    make("span", { class: "faint", text: shell.times.day(now) }));
}

/** Ids have room where there is any. */
function makeRoom() {
  skyline.stage.left = gantt.stage.left = innerWidth > 640 ? 112 : 84;
}

makeRoom();
addEventListener("resize", makeRoom);

/** Whether the time shown goes on with the present: as long as nobody has moved it. */
let follows = !(Number(shown.to) > Number(shown.from || NaN));
let movesItself = false;

/** Shows the hour before the present and the day behind it. */
function followPresent() {
  if (!follows) return;
  const step = series.finest;
  const from = Math.max(0, Math.floor(shell.times.present() / step) * step - 3600);
  movesItself = true;
  span.show(from, Math.min(from + DAY, span.last));
  movesItself = false;
}

let later = 0;
span.addEventListener("change", () => {
  if (!movesItself) follows = false;
  clearTimeout(later);
  later = window.setTimeout(() => attempt($("trouble"), settle), 150);
});

/** Once time stands still: asks for what is missing, and writes the address. */
async function settle() {
  if (!follows) keep({ from: String(Math.round(span.from)), to: String(Math.round(span.to)) });
  if (series.isShort) await series.refresh();
  await lists.settle();
}

/** Asks for what has changed. @param {Set<string>} kinds what was heard */
async function refresh(kinds) {
  if (kinds.size === 1 && kinds.has("start") && shell.live.version === book.version) return;
  const body = series.body;
  const steps = Math.floor((shell.times.present() - body.now) / series.finest);
  if (steps > 0) span.last = Math.max(span.last, body.to + steps * series.finest);
  followPresent();
  await Promise.all([series.refresh(), book.follow(), drawCounts()]);
}

series.addEventListener("change", () => {
  skyline.set(series.body);
  shell.times.hear(series.body.now);
  drawLegend();
});
book.addEventListener("change", () => lists.arrange());
theme.addEventListener("change", () => series.body && drawLegend());
shell.times.addEventListener("change", () => lists.arrange());
window.setInterval(() => {
  if (span.length > 1200) followPresent();
  skyline.stage.ask();
  gantt.stage.ask();
}, 10_000);

await attempt($("trouble"), async () => {
  const body = await series.begin(shell.cluster, shown.resource, shown.by);
  const now = body.now;
  span.least = Math.min(5 * series.finest, body.to - now);
  span.last = body.to;
  span.first = Math.max(0, now - 7 * DAY);
  span.from = span.to = 0;
  skyline.alone = shown.layer === "" ? undefined : shown.layer;
  movesItself = true;
  if (!follows) span.show(Number(shown.from), Number(shown.to));
  movesItself = false;
  followPresent();
  clearTimeout(later);
  drawResources();
  await Promise.all([series.isShort ? series.refresh() : null, lists.begin(), drawCounts()]);
});
followSkyline(skyline, series, shell);
offerPictures(skyline, gantt, shell);
planKeys({ span, skyline, gantt, shell, lists, pane, series, showAlone });
gantt.onopen = (/** @type {import("../chart/bars.js").Bar} */ bar) => pane.open(bar.id);
if (shown.sel) await pane.open(shown.sel, false);
whenChanged(shell.live, (kinds) => attempt($("trouble"), () => refresh(kinds)), { least: 1000, kinds: ["commit", "reset", "cluster", "start"] });
document.body.dataset.ready = "";
import("../plan/status-line.js").then(({ statusLine }) => $("trouble").after(statusLine(shell)));
