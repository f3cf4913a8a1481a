// What happens, as it happens. One tab reads the stream for all; where streams break, it asks.
import { Problem, read } from "./api.js";
import { readEvents } from "./events.js";

const SILENT_MS = 25_000; // comments come every 15 s
const OPENING_MS = 5_000; // a proxy that holds a stream back shows nothing for so long
const ASKING_MS = 2_000;
const BEHIND_MS = 4_000;
const WAITS_MS = [500, 1000, 2000, 4000, 8000];
/** How often is asked before the stream is tried again: soon at first, it may be back. */
const ROUNDS = [1, 3, 10, 30];

/** @typedef {"opening"|"live"|"asking"|"reconnecting"|"behind"} LiveState */

/**
 * Tells "state" when the connection is another, and "happened" with each event ({kind, data}).
 * @fires state
 * @fires happened
 */
export class Live extends EventTarget {
  /** @param {string} scope of the user: tabs of other users do not share */
  constructor(scope) {
    super();
    /** @type {LiveState} */
    this.state = "opening";
    /** When it was last known to be up to date, Unix milliseconds. */
    this.goodMs = Date.now();
    /** Of the Plan, as last heard; -1: nothing was heard. */
    this.version = -1;
    this.leads = false;
    this.failures = 0;
    /** How often it has fallen back to asking since the stream was last heard. */
    this.fallbacks = 0;
    this.scope = `agenda-live-${scope}`;
    this.channel = new BroadcastChannel(this.scope);
    this.channel.addEventListener("message", (message) => this.#hear(message.data));
    this.over = new AbortController();
  }

  start() {
    if (navigator.locks) {
      this.channel.postMessage({ ask: true });
      navigator.locks.request(this.scope, { signal: this.over.signal }, () => this.#lead()).catch(() => {});
    } else this.#lead();
    addEventListener("pagehide", () => this.over.abort());
    addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
    addEventListener("offline", () => this.stop?.());
    addEventListener("online", () => this.wake?.());
  }

  /** @param {any} message */
  #hear(message) {
    if (message.ask) {
      if (this.leads) this.channel.postMessage({ state: this.state, version: this.version, goodMs: this.goodMs });
    } else if (message.event) this.#tell(message.event);
    else if (message.state && !this.leads) this.#enter(message.state, message);
  }

  /** @param {LiveState} state @param {{version?: number, goodMs?: number}} [known] */
  #enter(state, known = {}) {
    const was = this.state;
    this.version = Math.max(this.version, known.version ?? -1);
    this.goodMs = known.goodMs ?? (state === "live" || state === "asking" ? Date.now() : this.goodMs);
    this.state = state;
    if (this.leads && was !== state) this.channel.postMessage({ state, version: this.version, goodMs: this.goodMs });
    if (was !== state) this.dispatchEvent(new Event("state"));
  }

  /** @param {{kind: string, data: any}} event */
  #tell(event) {
    this.version = Math.max(this.version, event.data.version ?? -1);
    this.goodMs = Date.now();
    this.dispatchEvent(new CustomEvent("happened", { detail: event }));
  }

  /** @param {{kind: string, data: any}} event */
  #share(event) {
    this.channel.postMessage({ event });
    this.#tell(event);
  }

  async #lead() {
    this.leads = true;
    while (!this.over.signal.aborted) {
      const heard = await this.#listen();
      if (this.over.signal.aborted) return;
      if (heard) {
        this.failures = 0;
        continue; // a stream ends after an hour
      }
      this.failures += 1;
      if (this.failures < 2 || !(await this.#ask())) await this.#pause();
    }
  }

  /** Reads the stream to its end; false where nothing came, or it broke. */
  async #listen() {
    const own = new AbortController();
    const stop = () => own.abort();
    this.stop = stop;
    this.over.signal.addEventListener("abort", stop);
    let heard = false;
    let timer = setTimeout(stop, OPENING_MS);
    const alive = () => {
      clearTimeout(timer);
      timer = setTimeout(stop, SILENT_MS);
      this.goodMs = Date.now();
    };
    const after = this.version >= 0 ? `?after=${this.version}` : "";
    try {
      await readEvents(`/v1/events${after}`, own.signal, (event) => {
        heard = true;
        this.failures = 0;
        this.fallbacks = 0;
        this.#enter("live");
        this.#share({ kind: event.kind, data: event.data });
      }, alive);
      return heard;
    } catch (error) {
      if (error instanceof Problem && error.status === 401) this.over.abort();
      return false;
    } finally {
      clearTimeout(timer);
      this.over.signal.removeEventListener("abort", stop);
    }
  }

  /** Asks for changes as long as that is answered, up to a minute; false where it never was. */
  async #ask() {
    let answered = false;
    const rounds = ROUNDS[Math.min(this.fallbacks, ROUNDS.length - 1)];
    for (let n = 0; n < rounds && !this.over.signal.aborted; n += 1) {
      try {
        const body = await read(`/v1/plan/changes?since=${Math.max(this.version, 0)}`, { signal: this.over.signal });
        if (!answered) this.fallbacks += 1;
        answered = true;
        const isNew = body.version !== this.version;
        this.#enter("asking", { version: body.version, goodMs: Date.now() });
        if (isNew) this.#share({ kind: body.reset ? "reset" : "commit", data: { version: body.version, now: body.now } });
      } catch {
        return answered;
      }
      await this.#sleep(ASKING_MS);
    }
    return answered;
  }

  async #pause() {
    this.#enter(Date.now() - this.goodMs > BEHIND_MS ? "behind" : "reconnecting");
    await this.#sleep(WAITS_MS[Math.min(this.failures, WAITS_MS.length) - 1]);
  }

  /** @param {number} ms */
  #sleep(ms) {
    return new Promise((wake) => {
      this.wake = () => wake(undefined);
      setTimeout(wake, ms);
    });
  }
}

/**
 * Calls `task` when the Plan has changed: at once, and then at most every `least` milliseconds.
 * @param {Live} live
 * @param {(kinds: Set<string>) => unknown} task
 * @param {{least?: number, kinds?: string[]}} [settings] `kinds`: only where one of these came
 */
export function whenChanged(live, task, { least = 500, kinds = ["commit", "reset", "start"] } = {}) {
  let last = -Infinity;
  let timer = 0;
  /** @type {Set<string>} */
  let gathered = new Set();
  live.addEventListener("happened", (event) => {
    const { kind } = /** @type {CustomEvent} */ (event).detail;
    gathered.add(kind);
    if (timer || !kinds.includes(kind)) return;
    timer = window.setTimeout(() => {
      timer = 0;
      last = performance.now();
      const told = gathered;
      gathered = new Set();
      task(told);
    }, Math.max(0, least - (performance.now() - last)));
  });
}
