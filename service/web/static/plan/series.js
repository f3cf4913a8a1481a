// The skyline of what is shown, and some of either side: asked for anew as time moves on.
import { read, withQuery } from "../core/api.js";
import { secondsOf } from "../core/numbers.js";

const FINE = 1600; // buckets across what is shown
const MOST = 4000; // buckets that are kept whole, at the finest step

/** Keeps a skyline for a span; tells "change" with each new answer. */
export class Series extends EventTarget {
  /** @param {import("../chart/span.js").Span} span */
  constructor(span) {
    super();
    this.span = span;
    this.resource = "";
    this.by = "tenant";
    /** @type {any} */
    this.body = null;
    this.finest = 60;
    /** @type {AbortController|null} */
    this.asked = null;
  }

  /**
   * The skyline from now to the horizon: it tells what the present and the steps are.
   * @param {any} cluster @param {string} resource empty: the scarcest @param {string} by
   */
  async begin(cluster, resource, by) {
    this.resource = resource;
    this.by = by;
    this.finest = secondsOf(cluster.step);
    const step = this.finest * Math.ceil(secondsOf(cluster.horizon) / this.finest / MOST);
    const body = await read(withQuery("/v1/plan/skyline", { resource, by, step }));
    this.#take(body);
    return body;
  }

  /** Shows another resource or division. @param {string} resource @param {string} by */
  async turn(resource, by) {
    this.resource = resource;
    this.by = by;
    await this.refresh();
  }

  /** Whether what is shown needs another answer: it lies outside, or is drawn too coarsely. */
  get isShort() {
    const { body, span } = this;
    if (!body) return true;
    const from = Math.max(span.from, span.first);
    const to = Math.min(span.to, span.last);
    if (from < body.from - this.finest || to > body.to + this.finest) return true;
    return body.step > this.finest && body.step > 2 * this.#step();
  }

  #step() {
    const { span, finest } = this;
    if ((span.last - span.first) / finest <= MOST) return finest;
    return finest * Math.max(1, Math.ceil(span.length / FINE / finest));
  }

  /** Asks again for what is shown. */
  async refresh() {
    this.asked?.abort();
    const asked = new AbortController();
    this.asked = asked;
    const { span } = this;
    const step = this.#step();
    const whole = step === this.finest && (span.last - span.first) / step <= MOST;
    const from = whole ? span.first : Math.max(span.first, span.from - span.length);
    const to = whole ? span.last : Math.min(span.last, span.to + span.length);
    const query = { resource: this.resource, by: this.by, from: Math.floor(from), to: Math.ceil(to), step };
    const body = await read(withQuery("/v1/plan/skyline", query), { signal: asked.signal });
    if (asked === this.asked) this.#take(body);
  }

  /** @param {any} body */
  #take(body) {
    this.body = body;
    this.resource = body.resource;
    this.dispatchEvent(new Event("change"));
  }
}
