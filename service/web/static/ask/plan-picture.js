// The skyline beside a request: what it would hold as a ghost, or where it finds no room.
import { ghostOf } from "../chart/ghost.js";
import { legend, Skyline } from "../chart/skyline.js";
import { Span } from "../chart/span.js";
import { $, make } from "../core/dom.js";
import { addKeys } from "../core/keys.js";
import { whenChanged } from "../core/live.js";
import { amount } from "../core/numbers.js";
import { windowOf } from "../core/rdl-text.js";
import { attempt, say } from "../core/say.js";
import { Series } from "../plan/series.js";
import { followSkyline } from "../plan/skyline-words.js";
import { markOf } from "../reservation/binding.js";

/** Shares of what is looked at that are shown at either side. */
const ROOM = 0.25;

/** Tells "turned" when another resource is chosen. @fires turned */
export class PlanPicture extends EventTarget {
  /** @param {import("../core/shell.js").Shell} shell @param {string} resource empty: the scarcest */
  constructor(shell, resource) {
    super();
    this.shell = shell;
    this.span = new Span(0, 86_400);
    this.series = new Series(this.span);
    this.skyline = new Skyline($("skyline"), this.span, shell.times);
    /** What is shown as a ghost. @type {any} */
    this.body = null;
    this.alone = /** @type {string|null|undefined} */ (undefined);
    this.resource = resource;
    this.series.addEventListener("change", () => this.#take());
    whenChanged(shell.live, () => attempt($("trouble"), () => this.series.refresh()), { least: 1000, kinds: ["commit", "reset", "cluster"] });
  }

  async begin() {
    const body = await this.series.begin(this.shell.cluster, this.resource, "tenant");
    this.resource = body.resource;
    this.span.least = 5 * this.series.finest;
    this.span.first = Math.max(0, body.now - 3600);
    this.span.last = body.to;
    this.span.show(this.span.first, this.span.first + 86_400);
    let later = 0;
    this.span.addEventListener("change", () => {
      clearTimeout(later);
      later = window.setTimeout(() => { if (this.series.isShort) attempt($("trouble"), () => this.series.refresh()); }, 150);
    });
    this.#drawResources();
    this.#keys();
    followSkyline(this.skyline, this.series, this.shell);
  }

  #take() {
    const { body } = this.series;
    this.shell.times.hear(body.now);
    this.skyline.set(body);
    $("legend").replaceChildren(...legend(body.layers, (name) => this.#showAlone(name), this.alone));
  }

  /** Shows one layer alone; the same again: all. @param {string|null} name */
  #showAlone(name) {
    this.alone = this.alone === name ? undefined : name;
    this.skyline.alone = this.alone;
    this.#take();
    say(this.alone === undefined ? "all layers" : `${name ?? "others"} alone`);
  }

  #drawResources() {
    const { machines, pools = [] } = this.shell.cluster;
    const names = [...new Set([...machines.flatMap((/** @type {any} */ one) => Object.keys(one.resources)), ...pools.map((/** @type {any} */ one) => one.name)])];
    $("resources").append(...names.map((name) => make("label", {},
      make("input", { type: "radio", name: "resource", value: name, checked: name === this.resource }), String(name))));
    $("resources").addEventListener("change", (/** @type {any} */ event) => this.turn(event.target.value));
  }

  /** Shows another resource. @param {string} resource */
  async turn(resource) {
    this.resource = resource;
    for (const radio of $("resources").querySelectorAll("input")) radio.checked = radio.value === resource;
    await attempt($("trouble"), () => this.series.turn(resource, "tenant"));
    this.#drawGhost();
    this.dispatchEvent(new Event("turned"));
  }

  /** Shows what a reservation would hold. @param {any} body */
  async show(body) {
    this.body = body;
    this.skyline.mark = null;
    const taken = [...new Set(body.atoms.flatMap((/** @type {any} */ one) => Object.keys(one.bundle)))];
    if (taken.length && !taken.includes(this.resource)) await this.turn(String(taken[0]));
    const [from, to] = body.window ?? [body.begin, body.finish];
    if (typeof from === "number" && to !== null) this.#look(Math.min(from, body.begin), Math.max(to, body.finish ?? to));
    this.#drawGhost();
  }

  /** Shows where there is no room. @param {any} refusal */
  async refuse(refusal) {
    this.body = null;
    const { binding } = refusal;
    if (binding?.resource && binding.resource !== this.resource) await this.turn(binding.resource);
    const window = windowOf(refusal.expression ?? "");
    this.skyline.mark = markOf(refusal, window, this.series.body?.unit ?? "", this.shell.times);
    const [from, to] = window ?? [binding?.at ?? NaN, binding?.at ?? NaN];
    if (Number.isFinite(from)) this.#look(from, to);
    this.#drawGhost();
  }

  clear() {
    this.body = null;
    this.skyline.mark = null;
    this.#drawGhost();
  }

  #drawGhost() {
    const { skyline } = this;
    skyline.ghost = this.body ? ghostOf(this.body, this.resource) : [];
    const unit = this.series.body?.unit ?? "";
    const most = Math.max(0, ...skyline.ghost.map((one) => one.amount));
    const instead = this.body?.displaced ? ", in place of those displaced" : "";
    $("ghost-says").textContent = skyline.ghost.length ? `Dashed: what the request would take, at most ${amount(most, unit)} of ${this.resource}${instead}` : skyline.mark?.text ?? "";
    skyline.stage.ask();
  }

  /** @param {number} from @param {number} to */
  #look(from, to) {
    const { span } = this;
    const room = Math.max(1800, (to - from) * ROOM);
    span.bound(Math.max(0, Math.min(span.first, from - room)), Math.max(span.last, to + room));
    span.show(from - room, to + room);
  }

  #keys() {
    const { span, shell } = this;
    const told = (/** @type {() => void} */ move) => () => {
      move();
      say(shell.times.span(span.from, span.to));
    };
    addKeys(
      { keys: ["ArrowLeft"], shown: "←", says: "Earlier", act: told(() => span.pan(-0.1)) },
      { keys: ["ArrowRight"], shown: "→", says: "Later", act: told(() => span.pan(0.1)) },
      { keys: ["+", "="], says: "Closer", act: told(() => span.zoom(0.7)) },
      { keys: ["-"], shown: "−", says: "Wider", act: told(() => span.zoom(1 / 0.7)) },
      { keys: ["0"], says: "All of the time", act: told(() => span.whole()) },
      { keys: ["n"], says: "Now", act: told(() => span.center(shell.times.present())) },
      {
        keys: ["1", "2", "3", "4", "5", "6", "7", "8", "9"],
        shown: "1 … 9",
        says: "One layer alone; again: all",
        act: (key) => {
          const layer = this.series.body?.layers[Number(key) - 1];
          if (layer) this.#showAlone(layer.name);
        },
      },
    );
  }
}
