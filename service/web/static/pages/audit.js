// Audit: who changed what, when and from where; for operators.
import { csvOf } from "../core/csv.js";
import { download } from "../chart/save.js";
import { read, withQuery } from "../core/api.js";
import { $, make } from "../core/dom.js";
import { addKeys } from "../core/keys.js";
import { count, counted } from "../core/numbers.js";
import { attempt, say } from "../core/say.js";
import { openShell } from "../core/shell.js";
import { PagedTable } from "../core/table.js";
import { keepAddress, readAddress } from "../core/url.js";
import { instantOf } from "../core/when.js";

const NAMES = ["number", "at", "user", "address", "call", "kind", "tenant", "about", "detail", "version"];
const FILTERS = { user: "", kind: "", tenant: "", about: "", from: "", to: "" };
const LIMIT = 200;
/** Most rows of a file. */
const MOST = 50_000;

const { user, times } = await openShell();
const state = readAddress(FILTERS);
/** @type {any[]} */
let rows = [];
/** @type {string|null} */
let next = null;
/** Counts what is asked: an answer that comes after a later question is not shown. */
let asked = 0;

const table = new PagedTable({
  label: "Changes, newest first",
  rows: [],
  size: 100,
  empty: "No change is like that.",
  columns: [
    { title: "When", of: (one) => times.ofText(one.at), sort: (one) => one.number },
    { title: "Who", of: (one) => narrowing("user", one.user), sort: (one) => one.user },
    { title: "From where", of: (one) => one.address || "this machine" },
    { title: "What", of: (one) => narrowing("kind", one.kind, one.kind.replaceAll("_", " ")), sort: (one) => one.kind },
    { title: "About", of: (one) => narrowing("about", one.about), sort: (one) => one.about },
    { title: "Tenant", of: (one) => narrowing("tenant", one.tenant), sort: (one) => one.tenant },
    { title: "Detail", of: (one) => one.detail || "–" },
    { title: "Call", of: (one) => make("code", { text: one.call }), sort: (one) => one.call },
    { title: "Version", number: true, of: (one) => (one.version === null ? null : count(one.version)), sort: (one) => one.version ?? -1 },
  ],
});

/**
 * A cell that narrows the list to what it says.
 * @param {keyof typeof FILTERS} name @param {string} value @param {string} [text]
 */
function narrowing(name, value, text = value) {
  if (!value) return "–";
  return make("button", { type: "button", class: "quiet link", text, title: `Only ${name} ${value}`,
    on: { click: () => { $(name).value = value; apply(); } } });
}

/** What the calls ask for, from the form. @param {string|null} cursor */
function query(cursor) {
  const { from, to, ...words } = state;
  return { ...words, from: instantOf(from, times), to: instantOf(to, times), cursor, limit: LIMIT };
}

async function load() {
  asked += 1;
  const mine = asked;
  const page = await read(withQuery("/v1/audit", query(null)));
  if (mine !== asked) return;
  rows = page.changes;
  next = page.next;
  draw();
  say($("shown").textContent);
}

async function older() {
  const mine = asked;
  const page = await read(withQuery("/v1/audit", query(next)));
  if (mine !== asked || page.changes[0]?.number >= rows.at(-1)?.number) return; // asked twice
  rows = [...rows, ...page.changes];
  next = page.next;
  draw();
  say(`${counted(page.changes.length, "older change")}.`);
}

function draw() {
  table.set(rows);
  $("older").hidden = next === null;
  $("shown").textContent = `${counted(rows.length, "change")} shown${next === null ? "" : ", older ones left out"}`;
}

function apply() {
  for (const name of /** @type {(keyof typeof FILTERS)[]} */ (Object.keys(FILTERS))) state[name] = $(name).value.trim();
  keepAddress(state, FILTERS);
  return attempt($("trouble"), load);
}

/** @param {"csv"|"json"} form */
async function exportAs(form) {
  for (const name of ["csv", "json"]) $(name).disabled = true;
  await attempt($("trouble"), async () => {
    /** @type {any[]} */
    const found = [];
    let cursor = null;
    do {
      /** @type {any} */
      const page = await read(withQuery("/v1/audit", { ...query(cursor), limit: 1000 }));
      found.push(...page.changes);
      cursor = page.next;
      $("exported").textContent = `${count(found.length)} read …`;
    } while (cursor !== null && found.length < MOST);
    const text = form === "csv" ? csvOf(NAMES, found) : `${JSON.stringify(found, null, 1)}\n`;
    download(new Blob([text], { type: form === "csv" ? "text/csv" : "application/json" }), `audit.${form}`);
    const left = cursor === null ? "" : ` Older ones are left out: a file has ${count(MOST)} at most; narrow the time.`;
    $("exported").textContent = `${counted(found.length, "change")} in audit.${form}.${left}`;
  });
  for (const name of ["csv", "json"]) $(name).disabled = false;
}

/** The kinds that there are, out of the server's description of itself. */
async function offerKinds() {
  const described = await read("/openapi.json");
  const { schema } = described.paths["/v1/audit"].get.parameters.find((/** @type {any} */ one) => one.name === "kind");
  $("kind").append(...schema.enum.map((/** @type {string} */ kind) => make("option", { value: kind, text: kind.replaceAll("_", " ") })));
}

if (user.may("operator")) {
  $("book").hidden = false;
  $("table").append(table.element);
  await attempt($("trouble"), offerKinds);
  for (const name of /** @type {(keyof typeof FILTERS)[]} */ (Object.keys(FILTERS))) $(name).value = state[name];
  $("form").addEventListener("submit", (/** @type {Event} */ event) => {
    event.preventDefault();
    apply();
  });
  $("kind").addEventListener("change", apply);
  $("clear").addEventListener("click", () => {
    $("form").reset();
    apply();
  });
  $("older").addEventListener("click", () => attempt($("trouble"), older));
  $("csv").addEventListener("click", () => exportAs("csv"));
  $("json").addEventListener("click", () => exportAs("json"));
  addKeys(
    { keys: ["/"], says: "Narrow by who", act: () => $("user").focus() },
    { keys: ["o"], says: "Older changes", act: () => { if (next !== null) attempt($("trouble"), older); } },
    { keys: ["r"], says: "Read again", act: () => apply() },
  );
  times.addEventListener("change", draw);
  await attempt($("trouble"), load);
} else {
  $("shown").textContent = "";
  $("main").append(make("p", { class: "note", text: `The audit is for operators; ${user.name} is ${user.role}. What happened to a reservation stands in its history.` }));
}
document.body.dataset.ready = "";
