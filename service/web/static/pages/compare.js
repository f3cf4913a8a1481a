import { AGENTS, USUAL } from "../compare/agents.js";
import { compareForm } from "../compare/compare-form.js";
import { ResultView } from "../compare/result-view.js";
import { call, read } from "../core/api.js";
import { $, make } from "../core/dom.js";
import { addKeys } from "../core/keys.js";
import { counted } from "../core/numbers.js";
import { attempt, say } from "../core/say.js";
import { openShell } from "../core/shell.js";
import { keepAddress, readAddress } from "../core/url.js";

const DEFAULTS = { id: "", resource: "", find: "", agents: USUAL.join(",") };
const RUNNING = ["running", "stopping"];
const ASK_MS = 1500;

const shown = readAddress(DEFAULTS);
const shell = await openShell();
let timer = 0;
let state = "";

/** @param {string} id */
function open(id) {
  clearTimeout(timer);
  state = "";
  shown.id = id;
  keepAddress(shown, DEFAULTS);
  fold.open = false;
  progress.focus();
  refresh();
}

async function refresh() {
  clearTimeout(timer);
  if (!shown.id) return;
  const path = `/v1/comparisons/${encodeURIComponent(shown.id)}`;
  const job = await attempt($("trouble"), () => read(path));
  if (!job) {
    timer = window.setTimeout(refresh, ASK_MS * 2);
    return;
  }
  const running = RUNNING.includes(job.state);
  progress.replaceChildren(stateLine(job, running, path));
  if (state && state !== job.state) say(`The comparison is ${job.state}.`);
  const changed = state !== job.state;
  state = job.state;
  if (running) timer = window.setTimeout(refresh, ASK_MS);
  else if (changed) await list();
  view.element.hidden = running || !job.result;
  if (changed && !running && job.result) view.show(job.result, job.asked.workload_lines === null);
}

/** @param {any} job @param {boolean} running @param {string} path */
function stateLine(job, running, path) {
  const stop = make("button", { type: "button", text: "Stop", on: { click: async () => {
    await attempt($("trouble"), () => call("POST", `${path}/stop`));
    refresh();
  } } });
  const source = job.asked.workload_lines === null ? "the requests of the Plan" : `a file of ${counted(job.asked.workload_lines, "request")}`;
  return make("div", { class: "panel row" },
    make("span", { class: `state ${job.state}`, text: job.state }),
    make("span", { text: `${job.asked.agents.join(", ")} on ${source}` }),
    make("span", { class: "faint", text: job.reason || `${job.phase}; started ${shell.times.ofText(job.created_at)}` }),
    running && job.state !== "stopping" ? stop : null);
}

async function list() {
  const found = await attempt($("trouble"), () => read("/v1/comparisons"));
  const all = found?.comparisons ?? [];
  earlier.hidden = !all.length;
  choice.replaceChildren(make("option", { value: "", text: "choose …" }), ...all.map((/** @type {any} */ one) => make("option", {
    value: one.id, selected: one.id === shown.id,
    text: `${shell.times.ofText(one.created_at)} · ${one.asked.agents.join(", ")} · ${one.state}`,
  })));
}

const progress = make("div", { tabindex: "-1" });
const fold = make("details", { class: "fold", open: !shown.id }, make("summary", { text: "Set agents side by side" }));
const choice = make("select", { "aria-label": "Earlier comparisons" });
choice.addEventListener("change", () => { if (choice.value) open(choice.value); });
const earlier = make("label", { class: "row", hidden: true }, "Previous comparisons", choice);
const names = AGENTS.map((one) => one.name);
const tenants = shell.user.may("operator") ? await attempt($("trouble"), () => read("/v1/tenants")) : null;
const view = new ResultView(shell.times, tenants?.tenants ?? [], shown);

if (!shell.user.may("operator")) {
  $("content").replaceChildren(make("p", { class: "note", text: "Comparisons are for operators." }));
} else {
  view.addEventListener("filtered", () => keepAddress(shown, DEFAULTS));
  const form = compareForm(shown.agents.split(",").filter((one) => names.includes(one)), open);
  form.addEventListener("change", () => {
    shown.agents = [...form.querySelectorAll("input[name=agent]:checked")].map((one) => one.value).join(",");
    keepAddress(shown, DEFAULTS);
  });
  fold.append(form);
  $("content").replaceChildren(fold, earlier, progress, view.element);
  addKeys({ keys: ["/"], says: "Find among those who differ", act: () => view.find.focus() });
  shell.live.addEventListener("happened", (event) => {
    const { kind, data } = /** @type {CustomEvent} */ (event).detail;
    if (kind === "job" && data.job === shown.id) refresh();
  });
  await list();
  await refresh();
}
document.body.dataset.ready = "";
