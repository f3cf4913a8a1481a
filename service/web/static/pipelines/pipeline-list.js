// The list of pipelines: the state of the newest run of each, and when the next one begins.
import { read } from "../core/api.js";
import { $, make } from "../core/dom.js";
import { count, counted, duration } from "../core/numbers.js";
import { PagedTable } from "../core/table.js";

export class PipelineList {
  /** @param {import("../core/times.js").Times} times */
  constructor(times) {
    /** @param {string|null} text */
    const at = (text) => (text ? times.ofText(text) : "–");
    this.table = new PagedTable({
      label: "Pipelines",
      rows: [],
      empty: "There is no pipeline. `agenda run FILE` makes one.",
      columns: [
        { title: "Pipeline", of: (one) => make("a", { href: `/ui/pipelines/${encodeURIComponent(one.id)}`, text: one.id }), sort: (one) => one.id },
        { title: "Tenant", of: (one) => one.tenant },
        { title: "Newest run", of: (one) => make("span", { class: `state run ${one.state}`, text: one.state }), sort: (one) => one.state },
        { title: "Runs", number: true, of: (one) => count(one.runs), sort: (one) => one.runs },
        { title: "Next run", of: (one) => (one.recurs ? at(one.next_at) : "runs once"), sort: (one) => one.next_at ?? "" },
        { title: "Slack", of: (one) => (one.slack === null ? "–" : duration(one.slack)), sort: (one) => one.slack ?? 0 },
        { title: "Submitted", of: (one) => at(one.submitted_at), sort: (one) => one.submitted_at },
        { title: "Why none follows", of: (one) => one.reason || "–" },
      ],
    });
    $("table").append(this.table.element);
    $("list").hidden = false;
  }

  async refresh() {
    const { pipelines } = await read("/v1/pipelines");
    this.table.set(pipelines);
    $("summary").textContent = counted(pipelines.length, "pipeline");
  }
}
