// Reservations as bars: out of the columns of `GET /v1/plan/bars`, and of single reservations.

/**
 * @typedef {object} Bar
 * @property {string} id
 * @property {string} tenant
 * @property {number|null} slot of the tenant
 * @property {string} state
 * @property {number} begin seconds from the origin
 * @property {number} finish of what is planned
 * @property {boolean} [isEndless] whether it goes on after that
 * @property {number|null} from of the window
 * @property {number|null} until
 * @property {number} peak most bundles held at once
 * @property {number[]} rows start, end and bundles, one after the other
 */

/** @param {any} body @returns {Bar[]} */
export function barsOf(body) {
  let row = 0;
  const endless = new Set(body.endless ?? []);
  return body.id.map((/** @type {string} */ id, /** @type {number} */ n) => {
    const tenant = body.tenants[body.tenant[n]];
    const rows = [];
    let at = body.begin[n];
    for (let k = 0; k < (body.rows?.[n] ?? 0); k += 1, row += 1) {
      const start = at + body.row_after[row];
      at = start + body.row_length[row];
      rows.push(start, at, body.row_bundles[row]);
    }
    return made({
      id, tenant: tenant.name, slot: tenant.slot, state: body.states[body.state[n]],
      begin: body.begin[n], finish: body.finish[n], isEndless: endless.has(n), from: body.window_from[n], until: body.window_until[n], rows,
    });
  });
}

/**
 * A bar of a reservation as `GET /v1/plan/changes` tells it; null where it holds nothing.
 * @param {any} one @param {number|null} slot
 * @returns {Bar|null}
 */
export function barOf(one, slot) {
  const rows = (one.atoms ?? []).flatMap((/** @type {any} */ atom) => atom.allocation).sort((/** @type {number[]} */ a, /** @type {number[]} */ b) => a[0] - b[0]).flat();
  if (!rows.length || one.begin === undefined || one.begin === null) return null;
  return made({
    id: one.id, tenant: one.tenant, slot, state: one.state, begin: one.begin, finish: one.finish ?? rows.at(-2), isEndless: one.finish === null,
    from: one.window?.[0] ?? null, until: one.window?.[1] ?? null, rows,
  });
}

/** @param {any} bar @returns {Bar} */
function made(bar) {
  let peak = 1;
  for (let n = 2; n < bar.rows.length; n += 3) peak = Math.max(peak, bar.rows[n]);
  return { ...bar, peak };
}

/** @typedef {"tenant"|"begin"|"deadline"|"id"} Order */

/** @type {Record<Order, (a: Bar, b: Bar) => number>} */
const ORDERS = {
  tenant: (a, b) => (a.slot ?? 1e9) - (b.slot ?? 1e9) || a.begin - b.begin,
  begin: (a, b) => a.begin - b.begin,
  deadline: (a, b) => (a.until ?? Infinity) - (b.until ?? Infinity) || a.begin - b.begin,
  id: (a, b) => (a.id < b.id ? -1 : 1),
};

/**
 * Those that match, in order.
 * @param {Bar[]} bars
 * @param {{from?: number, to?: number, tenant?: string, words?: string, order?: string}} wanted
 *   `from` and `to`: only what holds something then
 */
export function chosenBars(bars, { from = -Infinity, to = Infinity, tenant, words = "", order = "tenant" }) {
  const text = words.trim().toLowerCase();
  return bars.filter((bar) => bar.finish > from && bar.begin < to
    && (tenant === undefined || bar.tenant === tenant)
    && (!text || bar.id.toLowerCase().includes(text) || bar.tenant.toLowerCase().includes(text) || bar.state === text))
    .sort(ORDERS[/** @type {Order} */ (order)] ?? ORDERS.tenant);
}
