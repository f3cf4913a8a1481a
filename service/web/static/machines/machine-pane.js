// One machine: its resources, its slots in the Plan, and apart from them what runs there.
import { facts, make } from "../core/dom.js";
import { counted, percent } from "../core/numbers.js";
import { PagedTable } from "../core/table.js";

const UNITS = /** @type {Record<string, number>} */ ({ KiB: 1 / 1024, MiB: 1, GiB: 1024, TiB: 1 << 20 });

/** An amount of the API as a number. @param {string|number|undefined} told */
function sizeOf(told) {
  if (typeof told !== "string") return told ?? 0;
  const [value, unit] = told.split(" ");
  return Number(value) * (UNITS[unit] ?? 1);
}

/** A share as a bar. @param {number} share @param {string} kind promised or running @param {string} label */
function meter(share, kind, label) {
  const inner = make("i", { class: `part ${kind}` });
  inner.style.width = `${Math.min(100, 100 * share)}%`;
  return make("span", { class: "meter", role: "img", "aria-label": `${label}: ${percent(share)}` }, inner);
}

/** @param {any} machine */
function resources(machine) {
  return new PagedTable({
    label: `Resources of ${machine.name}`,
    rows: Object.entries(machine.capacity),
    columns: [
      { title: "Resource", of: ([name]) => name },
      { title: "Has", number: true, of: ([, whole]) => whole, sort: ([, whole]) => sizeOf(whole) },
      ...["promised", "running"].map((kind) => {
        const amounts = kind === "promised" ? machine.promised : machine.used;
        return {
          title: kind === "promised" ? "Promised" : "Runs",
          of: (/** @type {any} */ [name, whole]) => make("span", { class: "measured" },
            make("span", { text: amounts[name] ?? 0 }), meter(sizeOf(amounts[name]) / sizeOf(whole), kind, `${name} ${kind}`)),
          sort: (/** @type {any} */ [name]) => sizeOf(amounts[name]),
        };
      }),
    ],
  }).element;
}

/** @param {any} machine @param {import("../core/times.js").Times} times */
function slots(machine, times) {
  return new PagedTable({
    label: `Slots on ${machine.name}`,
    rows: machine.slots,
    size: 10,
    empty: "The Plan promises nothing of this machine at that time.",
    columns: [
      { title: "Reservation", of: (one) => one.reservation === null ? "another tenant’s"
        : make("a", { href: `/ui/reservations/${encodeURIComponent(one.reservation)}`, text: one.reservation }), sort: (one) => one.reservation ?? "" },
      { title: "Tenant", of: (one) => one.tenant },
      { title: "Bundles", number: true, of: (one) => one.bundles, sort: (one) => one.bundles },
      { title: "Until", of: (one) => times.full(one.end), sort: (one) => one.end },
    ],
  }).element;
}

/** @param {any} machine */
function components(machine) {
  return new PagedTable({
    label: `Components on ${machine.name}`,
    rows: machine.components,
    size: 10,
    empty: "Nothing runs here.",
    columns: [
      { title: "Application", of: (one) => one.execution === null ? "another tenant’s"
        : make("a", { href: `/ui/applications/${encodeURIComponent(one.execution)}`, text: one.execution }), sort: (one) => one.execution ?? "" },
      { title: "Component", of: (one) => one.component === null ? null : `${one.component} ${one.index}` },
      { title: "Covered", of: (one) => (one.covered ? "by its reservation" : "no") },
    ],
  }).element;
}

/**
 * The next outage of a machine within the horizon: its kind, times, reason and person.
 * @param {any} machine @param {import("../core/times.js").Times} times
 */
export function nextWords(machine, times) {
  const next = machine.next_outage;
  if (!next) return "–";
  const reason = next.reason ? ` (${next.reason})` : "";
  return `${next.kind}${reason}, ${times.span(next.start, next.end)}`;
}

/**
 * @param {any} machine as the API tells it, with slots and components
 * @param {{times: import("../core/times.js").Times, present: boolean, close: () => void}} settings
 */
export function machinePane(machine, { times, present, close }) {
  const { outage } = machine;
  return [
    make("div", { class: "bar" }, make("h2", { text: machine.name, id: "pane-title", tabindex: "-1" }),
      make("button", { type: "button", class: "end", text: "Close", on: { click: close } })),
    facts([
      ["Group", machine.group],
      ["State", machine.up ? "up" : `down: ${outage.kind}, back at ${times.full(outage.end)}`],
      ["Next outage", nextWords(machine, times)],
    ]),
    resources(machine),
    make("h3", { text: `Promised: ${counted(machine.slots.length, "slot")}` }),
    slots(machine, times),
    make("h3", { text: `Running${present ? "" : " now"}: ${counted(machine.components.length, "component")}` }),
    components(machine),
  ];
}
