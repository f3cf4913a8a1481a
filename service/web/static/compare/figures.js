// What is told of compared agents: rows of figures, the best bound of all, and who differs.

/**
 * @typedef {object} AgentFigures
 * @property {string} agent
 * @property {string} status
 * @property {string} detail
 * @property {any} metrics null where there is no plan
 * @property {any} work hours of each resource, utilisation and waits; null where there is no plan
 * @property {number|null} relative value over that of the baseline
 * @property {number|null} gap to the best bound of all
 * @property {any} differences from the baseline's plan
 */

/**
 * The least bound of all, and who gives it: all plan the same requests, so it holds for all. The
 * bound of the Plan as it stands is another: that of what can still change.
 * @param {any} result of a comparison @returns {{bound: number, agent: string}|null}
 */
export function bestBound({ agents, bound_by: by }) {
  const found = agents.filter((/** @type {any} */ one) => one.basis !== "plan" && typeof one.metrics?.bound === "number")
    .sort((/** @type {any} */ a, /** @type {any} */ b) => a.metrics.bound - b.metrics.bound)[0];
  return found ? { bound: found.metrics.bound, agent: by ?? found.agent } : null;
}

/** @param {any} result of a comparison @returns {AgentFigures[]} in the order asked */
export function figuresOf(result) {
  const best = bestBound(result);
  return result.agents.map((/** @type {any} */ one) => ({
    agent: one.agent,
    status: one.status,
    detail: one.detail,
    metrics: one.metrics,
    work: one.work,
    relative: one.relative?.value ?? null,
    gap: ["plan", "recorded"].includes(one.basis) ? one.metrics?.gap ?? null : best && one.metrics ? Math.max(0, best.bound - one.metrics.value) / (best.bound || 1) : null,
    differences: one.differences,
  }));
}

/** @typedef {{id: string, tenant: string, weight: number, answers: (string|null)[]}} Disagreement */

/**
 * Those that agents answer differently, where an id or a tenant holds a text.
 * @param {Disagreement[]} all @param {string} find
 */
export function differing(all, find) {
  const sought = find.trim().toLowerCase();
  return all.filter((one) => !sought || one.id.toLowerCase().includes(sought) || one.tenant.toLowerCase().includes(sought));
}

/**
 * For each agent: how many of those that differ it takes in, and how many it alone takes in.
 * @param {Disagreement[]} all @param {string[]} agents
 */
export function tally(all, agents) {
  return agents.map((agent, place) => ({
    agent,
    taken: all.filter((one) => one.answers[place] === "accepted").length,
    alone: all.filter((one) => one.answers[place] === "accepted" && one.answers.filter((a) => a === "accepted").length === 1).length,
  }));
}
