// Slots of tenants: the place in the palette that a name has in every picture. The server gives them
// (planner/colours.py has the rule).

/**
 * Slots of tenants: those of the Plan, and for tenants that it does not know yet the next ones.
 * @param {{name: string, slot: number}[]} known @param {(string|null)[]} tenants
 */
export function slotsFor(known, tenants) {
  const slots = new Map(known.map((one) => [one.name, one.slot]));
  let next = Math.max(-1, ...slots.values()) + 1;
  for (const tenant of tenants) {
    if (tenant !== null && !slots.has(tenant)) {
      slots.set(tenant, next);
      next += 1;
    }
  }
  return slots;
}
