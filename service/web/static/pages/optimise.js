import { read } from "../core/api.js";
import { $, make } from "../core/dom.js";
import { addKeys } from "../core/keys.js";
import { attempt } from "../core/say.js";
import { openShell } from "../core/shell.js";
import { idOfPath, keepAddress, readAddress } from "../core/url.js";
import { betterLine } from "../improve/better.js";
import { DiffView } from "../improve/diff-view.js";
import { jobTable } from "../improve/job-list.js";
import { JobView } from "../improve/job-view.js";
import { startForm } from "../improve/start-form.js";

const DEFAULTS = { fate: "", find: "", table: "" };

/** @param {string} id */
const pathOf = (id) => `/ui/optimizations/${encodeURIComponent(id)}`;

/** @param {import("../core/shell.js").Shell} shell */
async function showAll(shell) {
  const place = $("content");
  const listed = await attempt($("trouble"), () => read("/v1/optimizations"));
  const table = jobTable(listed?.optimizations ?? [], shell.times);
  place.replaceChildren(betterLine(shell), startForm((id) => location.assign(pathOf(id))),
    make("section", { class: "panel" }, make("h2", { text: "Previous optimisations" }), table.element));
  const again = async () => {
    const body = await attempt($("trouble"), () => read("/v1/optimizations"));
    if (body) table.set(body.optimizations);
  };
  shell.live.addEventListener("happened", (event) => {
    if (/** @type {CustomEvent} */ (event).detail.kind === "job") again();
  });
  shell.times.addEventListener("change", () => table.show());
}

/** @param {import("../core/shell.js").Shell} shell @param {string} id */
async function showOne(shell, id) {
  const tenants = await attempt($("trouble"), () => read("/v1/tenants"));
  const shown = readAddress(DEFAULTS);
  const diff = new DiffView(shell.times, tenants?.tenants ?? [], shown);
  diff.addEventListener("filtered", () => keepAddress(shown, DEFAULTS));
  const view = new JobView(id, shell, diff);
  $("content").replaceChildren(make("p", {}, make("a", { href: "/ui/optimizations", text: "All optimisations" })), view.element);
  addKeys(
    { keys: ["b"], says: "Diff as table, as bars", act: () => diff.toggle() },
    { keys: ["/"], says: "Find in the diff", act: () => diff.find.focus() },
  );
  await view.open();
}

const shell = await openShell();
if (!shell.user.may("operator")) {
  $("content").replaceChildren(make("p", { class: "note", text: "Optimisations are for operators." }));
} else if (idOfPath()) await showOne(shell, idOfPath());
else await showAll(shell);
document.body.dataset.ready = "";
