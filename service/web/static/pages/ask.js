// Ask: write a request, see what it means and where it would stand, and then ask for it.
import { EXAMPLES } from "../ask/examples.js";
import { OutlineView, placeOf } from "../ask/outline-view.js";
import { PlanPicture } from "../ask/plan-picture.js";
import { ProblemList } from "../ask/problem-list.js";
import { RequestFields } from "../ask/request-fields.js";
import { call, Problem, read } from "../core/api.js";
import { $, make } from "../core/dom.js";
import { addKeys } from "../core/keys.js";
import { attempt } from "../core/say.js";
import { openShell } from "../core/shell.js";
import { keepAddress, readAddress } from "../core/url.js";
import { Editor } from "../rdl/editor.js";
import { placedIn } from "../rdl/marks.js";

const DEFAULTS = { rdl: "", tenant: "", queue: "", weight: "", priority: "", id: "", resource: "" };
const LONGEST = 4000; // characters that an address carries
const DRAFT = "agenda.draft";

const shell = await openShell();
const shown = readAddress(DEFAULTS);

/** @param {string} rdl @param {AbortSignal} signal */
async function check(rdl, signal) {
  try {
    const { body } = await call("POST", "/v1/rdl/check", { body: { rdl }, signal });
    const [outline, questions] = [body.outline, body.questions].map((parts) => placedIn(rdl, parts));
    return { problems: [], answer: { ...body, outline, questions } };
  } catch (error) {
    if (!(error instanceof Problem) || !error.errors.length) throw error;
    return { problems: placedIn(rdl, error.errors), answer: null };
  }
}

/** Keeps what is written: in the address, and what is too long for one in this tab. */
function keep() {
  const rdl = $("rdl").value;
  const isLong = rdl.length > LONGEST;
  sessionStorage.setItem(DRAFT, rdl);
  keepAddress({ ...fields.shown, rdl: isLong ? "" : rdl, resource: shown.resource }, { ...DEFAULTS, ...first });
}

const tenants = await attempt($("trouble"), () => read("/v1/tenants"));
const fields = new RequestFields(shell, (tenants?.tenants ?? []).map((/** @type {any} */ one) => one.name), shown);
const first = shown.tenant || shown.queue ? {} : fields.shown; // what nobody has chosen is not kept
$("fields").replaceChildren(fields.element);
$("rdl").value = shown.rdl || sessionStorage.getItem(DRAFT) || EXAMPLES[0].rdl;
$("examples").append(...EXAMPLES.map(({ name }, place) => make("option", { value: place, text: name })));

const editor = new Editor($("rdl"), $("copy"), async (text, signal) => {
  const found = await attempt($("trouble"), () => check(text, signal));
  return found ?? { problems: [], answer: null };
});
const outline = new OutlineView((span) => editor.go(span), shell.times);
const problems = new ProblemList(editor, $("judged"), $("problems"));
const picture = new PlanPicture(shell, shown.resource);
/** Where the request is tried; its modules come after the first picture. @type {import("../ask/desk.js").AskDesk|null} */
let desk = null;

async function openDesk() {
  const { AskDesk } = await import("../ask/desk.js");
  desk ??= new AskDesk(shell, picture, {
    place: $("outcome"),
    body: () => fields.bodyOf($("rdl").value),
    bound: (path) => {
      const span = editor.answer ? placeOf(editor.answer.outline, path) : null;
      editor.mark(span ? [{ span, kind: "bound" }] : []);
    },
  });
  return desk;
}

/** @param {boolean} dry whether it is a preview, which asks for nothing */
async function send(dry) {
  const there = await openDesk().catch(() => null);
  if (there) return dry ? there.preview() : there.ask();
  const text = "A part of this page did not come, and nothing was asked for. Reload it: what you wrote is kept.";
  return $("outcome").replaceChildren(make("p", { class: "trouble", role: "alert", text }));
}

$("outline").replaceChildren(outline.element);

let later = 0;
editor.addEventListener("changed", () => {
  desk?.forget();
  editor.mark([]);
  clearTimeout(later);
  later = window.setTimeout(keep, 400);
});
editor.addEventListener("checked", () => {
  problems.show();
  if (editor.answer) outline.show(editor.answer);
  else if (editor.problems.length) outline.stale();
  else outline.empty();
});
fields.element.addEventListener("input", () => {
  desk?.forget();
  keep();
});
picture.addEventListener("turned", () => {
  shown.resource = picture.resource;
  keep();
});
$("examples").addEventListener("change", () => {
  if ($("examples").value !== "") editor.write(EXAMPLES[Number($("examples").value)].rdl);
  $("examples").value = "";
});
$("request").addEventListener("submit", (/** @type {Event} */ event) => {
  event.preventDefault();
  send(true);
});
$("ask").addEventListener("click", () => send(false));
addKeys(
  { keys: ["Ctrl+Enter"], says: "Preview: a dry run", field: true, act: () => send(true) },
  { keys: ["Alt+ArrowDown"], shown: "Alt+↓", says: "The next problem", field: true, act: () => problems.next() },
  { keys: ["e"], says: "Write the request", act: () => $("rdl").focus() },
);

await attempt($("trouble"), () => picture.begin());
await editor.ask();
document.body.dataset.ready = "";
openDesk().catch(() => null); // asked for again when it is needed
