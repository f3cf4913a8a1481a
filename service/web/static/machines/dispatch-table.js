// The dispatch table that the server follows now: which part of each class of jobs goes to which machines.
import { read } from "../core/api.js";
import { make } from "../core/dom.js";
import { count, decimal, percent } from "../core/numbers.js";
import { PagedTable } from "../core/table.js";

export class DispatchTable {
  /** @param {HTMLElement} host a section, hidden while no table is used @param {import("../core/times.js").Times} times */
  constructor(host, times) {
    this.host = host;
    this.times = times;
    /** What is shown, so that it is left alone while that stays. */
    this.shown = "";
  }

  async refresh() {
    const told = await read("/v1/dispatch/table");
    const shown = JSON.stringify([told, this.times.zone]);
    if (shown === this.shown) return;
    this.shown = shown;
    this.host.hidden = !told.used && !told.table;
    this.host.replaceChildren(make("h2", { text: "Dispatch table" }), make("p", { text: this.#words(told) }),
      ...(told.table ? [tableOf(told.table, told.running).element, make("p", { class: "faint",
        text: "What one job asks for is told as a part of the largest machine. Under each group of machines: the part of the class’s arrivals that goes there, and how many run there of how many that are to run at the same time." })] : []));
  }

  /** Version, age and load of the table, or why there is none. @param {any} told */
  #words(told) {
    if (!told.table) return told.problem ? `There is none, so best fit is used: ${told.problem}` : "There is none yet: it is made once the dispatcher has something to do.";
    const parts = [`Table ${told.version}, made ${this.times.full(told.at)}`, `sustains ${decimal(told.table.arrival_rate_per_h)} jobs an hour`];
    if (told.load !== null) parts.push(`load ${told.load.toFixed(2)}${told.load > 1 ? ": queues grow" : ""}`);
    if (!told.used) parts.push("not used: the policy has tables = false");
    return `${parts.join("; ")}.`;
  }
}

/** @param {any} table as the API tells it @param {Record<string, number[]>} running how many of each class run on each group */
function tableOf(table, running) {
  const groups = table.configurations.map((/** @type {string} */ name, /** @type {number} */ place) => {
    const runs = table.runs.filter((/** @type {any} */ run) => run.configuration === name);
    const machines = sum(runs, (run) => run.machines);
    return {
      title: `${name} (${count(machines)})`, number: true,
      of: (/** @type {number} */ row) => {
        const share = table.wheel[place][row];
        const had = running[name]?.[row], wanted = count(sum(runs, (run) => run.machines * run.jobs[row]));
        if (!share && !had) return "–";
        return `${percent(share)} · ${had === undefined ? `${wanted} wanted` : `${count(had)} of ${wanted}`}`;
      },
      sort: (/** @type {number} */ row) => table.wheel[place][row],
    };
  });
  return new PagedTable({
    label: "Classes of jobs by groups of machines",
    rows: table.classes.map((/** @type {string} */ _, /** @type {number} */ place) => place),
    columns: [
      { title: "Class", of: (row) => table.classes[row], sort: (row) => row },
      { title: "One asks for", of: (row) => askedWords(table, row) },
      ...groups,
    ],
  });
}

/** What one job of a class asks for. @param {any} table @param {number} row */
const askedWords = (table, row) => table.resources
  .map((/** @type {string} */ name, /** @type {number} */ place) => [table.requests[row][place], name])
  .filter((/** @type {any[]} */ [part]) => part).map((/** @type {any[]} */ [part, name]) => `${percent(part)} ${name}`).join(", ") || "nothing";

/** @param {any[]} runs @param {(run: any) => number} of */
const sum = (runs, of) => runs.reduce((all, run) => all + of(run), 0);
