// The form that starts a comparison: which agents, how long, on which requests.
import { call } from "../core/api.js";
import { make } from "../core/dom.js";
import { field, filled } from "../core/form.js";
import { counted } from "../core/numbers.js";
import { attempt } from "../core/say.js";
import { AGENTS } from "./agents.js";
import { readWorkload } from "./workload.js";

/**
 * @param {string[]} chosen agents that are ticked at first
 * @param {(id: string) => void} started
 */
export function compareForm(chosen, started) {
  const trouble = make("div");
  const agents = AGENTS.map(({ name, says, solves }) => {
    const box = make("input", { type: "checkbox", name: "agent", value: name, checked: chosen.includes(name) });
    return make("label", { class: "agent" }, box, make("span", {}, make("b", { text: name }), ` ${says}`, solves ? make("small", { class: "faint", text: " · takes its time" }) : null));
  });
  const time = make("input", { value: "10s", size: "6", autocomplete: "off" });
  const since = make("input", { placeholder: "all", size: "22", autocomplete: "off" });
  const file = make("input", { type: "file", accept: ".jsonl,.json,application/x-ndjson" });
  const told = make("p", { class: "faint", role: "status" });
  const onPlan = make("input", { type: "radio", name: "source", value: "plan", checked: true });
  const onFile = make("input", { type: "radio", name: "source", value: "file" });
  const planPart = field("Submitted since", since, "an instant; empty: all that the Plan remembers");
  const filePart = make("div", {}, field("Workload file", file, "one request a line, as agenda plan reads it"), told);
  /** @type {any[]|null} */
  let lines = null;
  const follow = () => {
    planPart.hidden = !onPlan.checked;
    filePart.hidden = !onFile.checked;
  };
  for (const one of [onPlan, onFile]) one.addEventListener("change", follow);
  follow();
  file.addEventListener("change", async () => {
    lines = null;
    told.replaceChildren();
    if (!file.files?.length) return;
    const found = readWorkload(await file.files[0].text());
    if (found.faults.length) told.replaceChildren(faultList(found.faults));
    else {
      lines = found.lines;
      told.textContent = counted(lines.length, "request");
    }
  });
  const start = make("button", { class: "main", text: "Compare" });
  const form = make("form", { class: "panel" },
    make("p", { class: "faint", text: "Each agent plans the same requests on an empty Plan, one by one in the order of arrival and with all of them known. The Plan does not change." }),
    make("fieldset", { class: "agents" }, make("legend", { text: "Agents" }), ...agents),
    make("fieldset", {}, make("legend", { text: "Requests" }),
      make("label", {}, onPlan, "of the live Plan"), make("label", {}, onFile, "of a workload file")),
    make("div", { class: "fields" }, planPart, filePart, field("Time for each agent", time, "seconds, or 5m"), start),
    trouble);
  form.addEventListener("submit", async (/** @type {Event} */ event) => {
    event.preventDefault();
    const named = [...form.querySelectorAll("input[name=agent]:checked")].map((one) => one.value);
    const fault = !named.length ? "Tick at least one agent." : onFile.checked && !lines ? "Choose a workload file first." : "";
    if (fault) {
      trouble.replaceChildren(make("p", { class: "trouble", role: "alert", text: fault }));
      return;
    }
    start.disabled = true;
    const body = {
      agents: named,
      ...(filled(time) ? { time_limit: filled(time) } : {}),
      ...(onPlan.checked && filled(since) ? { since: filled(since) } : {}),
      ...(onFile.checked ? { workload: lines } : {}),
    };
    const done = await attempt(trouble, () => call("POST", "/v1/comparisons", { body }));
    start.disabled = false;
    if (done) started(done.body.id);
  });
  return form;
}

/** @param {{line: number, message: string}[]} faults */
const faultList = (faults) => make("ul", { class: "trouble", role: "alert" },
  ...faults.map(({ line, message }) => make("li", { text: `line ${line}: ${message}` })));
