// The reservations of a time: read once, then kept up to date by what has changed.
import { read, withQuery } from "../core/api.js";
import { barOf, barsOf, chosenBars } from "../chart/bars.js";

/** Most bars that are read whole; above, the server sends a part of them. */
export const WHOLE = 10_000;

/** How long a part of many is shown before it is read anew. */
const PART_MS = 10_000;

/** Orders as the server calls them. @type {Record<string, string>} */
const ORDERS = { tenant: "tenant", begin: "begin", deadline: "finish", id: "admission" };

/** @typedef {import("../chart/bars.js").Bar} Bar */

/** Tells "change" whenever the bars are others. */
export class BarBook extends EventTarget {
  constructor() {
    super();
    /** @type {Map<string, Bar>} */
    this.bars = new Map();
    this.version = 0;
    this.isRead = false;
    /** How many there are in that time, read or not. */
    this.total = 0;
    this.others = 0;
    /** Whether only some of many were asked for. */
    this.isPart = false;
    /** What was asked for last. @type {any} */
    this.wanted = {};
    this.readMs = 0;
    this.from = 0;
    this.to = 0;
    /** @type {Map<string, number>} */
    this.slots = new Map();
  }

  get isWhole() {
    return this.total <= this.bars.size;
  }

  /** Whether a time has been read. @param {number} from @param {number} to */
  covers(from, to) {
    return this.isRead && from >= this.from && to <= this.to;
  }

  /**
   * Reads the bars of a time.
   * @param {number} from @param {number} to
   * @param {{order?: string, words?: string, tenant?: string, spread?: boolean}} [wanted] counts
   *   where not all are read; `spread`: some out of all, else the first in that order
   */
  async load(from, to, { order = "tenant", words = "", tenant, spread = false } = {}) {
    this.wanted = { order, words, tenant, spread };
    const query = {
      from: Math.floor(from), to: Math.ceil(to), rows: true, most: WHOLE, find: words, tenant,
      order: ORDERS[order] ?? "tenant", spread: spread || null,
    };
    const body = await read(withQuery("/v1/plan/bars", query));
    this.bars = new Map(barsOf(body).map((bar) => [bar.id, bar]));
    this.version = body.version;
    this.isRead = true;
    this.readMs = performance.now();
    this.total = body.total ?? body.id.length;
    this.others = body.others;
    this.from = from;
    this.to = to;
    for (const one of body.tenants) this.slots.set(one.name, one.slot);
    this.dispatchEvent(new Event("change"));
    return body;
  }

  /** Takes in what has changed since the last answer; reads anew where that is too much. */
  async follow() {
    if (!this.isRead) return;
    const body = await read(`/v1/plan/changes?since=${this.version}`);
    if (!this.isWhole && performance.now() - this.readMs < PART_MS) return;
    if (body.reset || !this.isWhole) return void await this.load(this.from, this.to, this.wanted);
    for (const id of body.removed) this.bars.delete(id);
    for (const one of body.reservations) await this.#take(one);
    this.total = this.bars.size;
    this.version = body.version;
    if (body.reservations.length || body.removed.length) this.dispatchEvent(new Event("change"));
  }

  /** @param {any} one */
  async #take(one) {
    if (!this.slots.has(one.tenant)) {
      for (const tenant of (await read("/v1/tenants")).tenants) this.slots.set(tenant.name, tenant.slot);
      for (const bar of this.bars.values()) bar.slot = this.slots.get(bar.tenant) ?? null; // names before it keep theirs
    }
    const bar = one.state === "refused" ? null : barOf(one, this.slots.get(one.tenant) ?? null);
    if (bar && bar.finish > this.from && bar.begin < this.to) this.bars.set(one.id, bar);
    else this.bars.delete(one.id);
  }

  /** Those that match, in order. @param {Parameters<typeof chosenBars>[1]} wanted */
  chosen(wanted) {
    return chosenBars([...this.bars.values()], wanted);
  }
}
