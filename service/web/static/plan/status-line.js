// One look at the cluster: machines, what is promised, work, next deadline, risks, refusals.
import { read } from "../core/api.js";
import { make } from "../core/dom.js";
import { whenChanged } from "../core/live.js";
import { count, counted } from "../core/numbers.js";

const LEAST_MS = 3_000;
const EVERY_MS = 30_000;

/** @param {number} share */
const whole = (share) => `${Math.round(100 * share)} %`;

/** @param {string} id */
const pathOf = (id) => `/ui/reservations/${encodeURIComponent(id)}`;

/**
 * The parts of the line, each with its heading; a part may be a warning.
 * @param {any} body of /v1/status
 * @param {import("../core/times.js").Times} times
 * @returns {{name: string, text: string, href?: string, bad?: boolean}[]}
 */
export function statusParts(body, times) {
  const { machines, work } = body;
  const away = machines.outages.map((/** @type {any} */ one) => `${count(one.count)} of ${one.machines}: ${one.kind}${one.reason ? ` (${one.reason})` : ""}`);
  const causes = body.refused.map((/** @type {any} */ one) => `${count(one.count)} ${one.code.replaceAll("_", " ")}`);
  const parts = [
    {
      name: "Machines",
      text: [`${count(machines.up)} of ${count(machines.total)} up`, ...away].join("; "),
      href: "/ui/machines",
      bad: machines.up < machines.total,
    },
    {
      name: "Promised",
      text: body.promised.map((/** @type {any} */ one) => `${one.resource} ${whole(one.now_share)} now, peak ${whole(one.peak_share)} at ${times.ofText(one.peak_at)}`).join(" · ") || "nothing",
    },
    { name: "Work", text: `${counted(work.running, "application")} running, ${count(work.waiting)} waiting`, href: "/ui/applications" },
    { name: "Refused in the last hour", text: causes.join(", ") || "none" },
  ];
  for (const { id, end_at: end } of body.ends.slice(0, 1)) parts.splice(3, 0, { name: "Ends next", text: `${id} at ${times.ofText(end)}`, href: pathOf(id) });
  return parts;
}

/** @param {any} body @param {import("../core/times.js").Times} times */
function riskList(body, times) {
  const more = body.at_risk_count - body.at_risk.length;
  return make("details", { class: "risks", open: body.at_risk_count <= 3 },
    make("summary", { text: `${counted(body.at_risk_count, "promise")} at risk` }),
    make("ul", {}, ...body.at_risk.map((/** @type {any} */ one) => make("li", {}, make("a", { href: pathOf(one.id), text: one.id }),
      ` of ${one.tenant}: ${one.state === "below" ? "lacks machines" : one.state}${one.since_at ? ` since ${times.ofText(one.since_at)}` : ""}${one.reason ? `. ${times.inText(one.reason)}` : ""}`))),
    more > 0 ? make("p", { class: "faint", text: `and ${count(more)} more` }) : null);
}

/** A section that follows the cluster. @param {import("../core/shell.js").Shell} shell */
export function statusLine(shell) {
  const place = make("section", { class: "status", "aria-label": "The cluster now" });
  /** @type {any} */
  let body = null;
  const draw = () => {
    if (!body) return;
    const open = place.querySelector("details")?.open;
    const facts = statusParts(body, shell.times).map(({ name, text, href, bad }) => make("div", { class: bad ? "warned" : null },
      make("dt", { text: name }), make("dd", {}, href ? make("a", { href, text }) : text)));
    place.replaceChildren(make("dl", {}, ...facts),
      ...body.problems.map((/** @type {string} */ text) => make("p", { class: "problem", text: shell.times.inText(text) })),
      ...(body.at_risk_count ? [riskList(body, shell.times)] : []));
    if (open !== undefined && place.querySelector("details")) place.querySelector("details").open = open;
  };
  const ask = async () => {
    try {
      body = await read("/v1/status");
      draw();
    } catch {
      // the page says elsewhere that the server is away
    }
  };
  whenChanged(shell.live, ask, { least: LEAST_MS, kinds: ["commit", "reset", "cluster", "start"] });
  shell.times.addEventListener("change", draw);
  window.setInterval(ask, EVERY_MS);
  ask();
  return place;
}
