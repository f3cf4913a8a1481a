// Seconds of the Plan as times of day, in the viewer's zone or the cluster's; the page says which.

const CHOICE = "agenda.zone";
const VIEWER = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

/** The zone that a cluster's policies or prices name; UTC where none does. @param {any} cluster */
export function zoneOf(cluster) {
  const named = [...(cluster.policies ?? []), ...(cluster.prices ?? [])].map((one) => one?.zone);
  return named.find((one) => typeof one === "string") ?? "UTC";
}

/** Formats instants; tells "change" when the zone is switched. */
export class Times extends EventTarget {
  /**
   * @param {number} originMs of the Plan, Unix milliseconds
   * @param {string} clusterZone
   */
  constructor(originMs, clusterZone) {
    super();
    this.originMs = originMs;
    this.clusterZone = clusterZone;
    this.choice = localStorage.getItem(CHOICE) === "cluster" ? "cluster" : "viewer";
    /** Seconds from the origin, as last heard from the server. */
    this.now = 0;
    this.heard = performance.now();
    this.formats = this.#prepare();
  }

  get zone() {
    return this.choice === "cluster" ? this.clusterZone : VIEWER;
  }

  /** "your time, Europe/Paris" or "the cluster's time, UTC". */
  get zoneWords() {
    return this.choice === "cluster" ? `cluster’s time, ${this.zone}` : `your time, ${this.zone}`;
  }

  toggle() {
    this.choice = this.choice === "cluster" ? "viewer" : "cluster";
    localStorage.setItem(CHOICE, this.choice);
    this.formats = this.#prepare();
    this.dispatchEvent(new Event("change"));
  }

  /** Takes the present as the server tells it: a Plan's is that of its step. @param {number} seconds */
  hear(seconds) {
    if (seconds < this.present()) return;
    this.now = seconds;
    this.heard = performance.now();
  }

  /** The present, seconds from the origin: what was heard last, and what has passed since. */
  present() {
    return this.now + (performance.now() - this.heard) / 1000;
  }

  /** How the zone shown writes instants. */
  #prepare() {
    /** @param {Intl.DateTimeFormatOptions} options */
    const of = (options) => new Intl.DateTimeFormat("en-GB", { timeZone: this.zone, hourCycle: "h23", ...options });
    return {
      clock: of({ hour: "2-digit", minute: "2-digit" }),
      seconds: of({ hour: "2-digit", minute: "2-digit", second: "2-digit" }),
      day: of({ weekday: "short", day: "numeric", month: "short" }),
      parts: of({ year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit" }),
    };
  }

  /** @param {number} seconds from the origin */
  date(seconds) {
    return new Date(this.originMs + seconds * 1000);
  }

  /** "08:47", with seconds where they are not 0. @param {number} seconds */
  clock(seconds) {
    const date = this.date(seconds);
    return (date.getTime() % 60_000 ? this.formats.seconds : this.formats.clock).format(date);
  }

  /** "Mon, 5 Jan". @param {number} seconds */
  day(seconds) {
    return this.formats.day.format(this.date(seconds));
  }

  /** "Mon, 5 Jan 08:47". @param {number} seconds */
  full(seconds) {
    return `${this.day(seconds)} ${this.clock(seconds)}`;
  }

  /** "Mon, 5 Jan 08:47 – 09:30". @param {number} from @param {number|null} to null: it has no end */
  span(from, to) {
    if (to === null) return `from ${this.full(from)}, without an end`;
    const end = this.day(from) === this.day(to) ? this.clock(to) : this.full(to);
    return `${this.full(from)} – ${end}`;
  }

  /** "Mon, 5 Jan 08:47 → 09:30": one instant in place of another. @param {number} asked @param {number} offered */
  change(asked, offered) {
    return `${this.full(asked)} → ${this.day(asked) === this.day(offered) ? this.clock(offered) : this.full(offered)}`;
  }

  /** An instant of RFC 3339 as the page shows it. @param {string} text */
  ofText(text) {
    return this.full((Date.parse(text) - this.originMs) / 1000);
  }

  /** A sentence with its instants of RFC 3339 as the page shows them. @param {string} text */
  inText(text) {
    const shown = text.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)/g, (found) => this.ofText(found));
    return `${shown.charAt(0).toUpperCase()}${shown.slice(1)}`;
  }

  /** Seconds that the zone is ahead of UTC then. @param {number} seconds */
  offset(seconds) {
    const date = this.date(seconds);
    const part = Object.fromEntries(this.formats.parts.formatToParts(date).map((one) => [one.type, Number(one.value)]));
    const wall = Date.UTC(part.year, part.month - 1, part.day, part.hour, part.minute, part.second);
    return Math.round((wall - Math.floor(date.getTime() / 1000) * 1000) / 1000);
  }
}
