// The form that starts an optimisation. Nothing changes in the Plan until what it finds is applied.
import { call } from "../core/api.js";
import { make } from "../core/dom.js";
import { field, filled, select, ticked } from "../core/form.js";
import { attempt } from "../core/say.js";

const WEIGHTS = [["reject", "1000"], ["churn", "1"], ["falls", "0.5"], ["cost", "0.5"]];
const SOLVERS = /** @type {[string, string][]} */ ([
  ["auto", "chosen by size"], ["none", "none: search only"],
  ["exact", "exact"], ["hybrid", "hybrid"], ["milp", "milp"]]);

/**
 * What the server is asked: fields that are left as they are stay out.
 * @param {{time: string|undefined, admit: boolean, solver: string, frozen: string|undefined,
 *   pins: string|undefined, lexicographic: boolean, weights: Record<string, string|undefined>}} form
 */
export function bodyOf(form) {
  const weights = Object.fromEntries(Object.entries(form.weights)
    .filter(([, value]) => value !== undefined).map(([name, value]) => [name, Number(value)]));
  const pins = (form.pins ?? "").split(/[\s,]+/).filter(Boolean);
  return {
    ...(form.time === undefined ? {} : { time_limit: form.time }),
    admit_refused: form.admit,
    ...(form.solver === "auto" ? {} : { solver: form.solver }),
    ...(form.frozen === undefined ? {} : { frozen_until: form.frozen }),
    ...(pins.length ? { pins } : {}),
    ...(form.lexicographic ? { lexicographic: true } : {}),
    ...(Object.keys(weights).length ? { weights } : {}),
  };
}

/** @param {(id: string) => void} started */
export function startForm(started) {
  const trouble = make("div");
  const time = make("input", { value: "60s", size: "6", autocomplete: "off" });
  const admit = make("input", { type: "checkbox", checked: true });
  const solver = select(SOLVERS, "auto");
  const frozen = make("input", { placeholder: "+6m", size: "22", autocomplete: "off" });
  const pins = make("textarea", { rows: "2", spellcheck: "false" });
  const lexicographic = make("input", { type: "checkbox" });
  const weights = WEIGHTS.map(([name, usual]) => [name, make("input", { inputmode: "decimal", size: "6", placeholder: usual })]);
  const start = make("button", { class: "main", text: "Look for a better Plan" });
  const form = make("form", { class: "panel start" },
    make("h2", { text: "Look for a better Plan" }),
    make("p", { class: "faint", text: "No reservation loses anything. Nothing changes until you apply what was found." }),
    make("div", { class: "fields" }, field("Time", time, "seconds, or 5m"),
      ticked("also admit refused requests that fit", admit), start),
    make("details", {}, make("summary", { text: "More" }),
      make("div", { class: "fields" },
        field("Solver", solver, "gives a bound, and a plan"),
        field("Frozen until", frozen, "+10m or an instant; rows before it do not move"),
        field("Pins", pins, "ids that stay wholly as they are")),
      make("fieldset", { class: "fields" }, make("legend", { text: "Weights" }),
        ...weights.map(([name, input]) => field(/** @type {string} */ (name), input))),
      ticked("compare the parts in this order instead of weighing them", lexicographic)),
    trouble);
  form.addEventListener("submit", async (/** @type {Event} */ event) => {
    event.preventDefault();
    start.disabled = true;
    const body = bodyOf({
      time: filled(time), admit: admit.checked, solver: solver.value, frozen: filled(frozen), pins: filled(pins),
      lexicographic: lexicographic.checked,
      weights: Object.fromEntries(weights.map(([name, input]) => [name, filled(input)])),
    });
    const done = await attempt(trouble, () => call("POST", "/v1/optimizations", { body }));
    start.disabled = false;
    if (done) started(done.body.id);
  });
  return form;
}
