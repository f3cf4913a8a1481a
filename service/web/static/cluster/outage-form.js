// The form that takes machines away: first tried, then posted as it was tried.
import { call } from "../core/api.js";
import { confirmed } from "../core/dialog.js";
import { $, make } from "../core/dom.js";
import { count } from "../core/numbers.js";
import { attempt, say } from "../core/say.js";
import { keepAddress, readAddress } from "../core/url.js";
import { affectedElement, affectedWords, namesOf } from "./affected.js";
import { instantOf } from "../core/when.js";

const FIELDS = { machines: "", which: "count", count: "1", names: "", kind: "loss", start: "", end: "+2h", every: "", reason: "" };
const KINDS = /** @type {Record<string, string>} */ ({
  loss: "They are gone from then on, whatever runs there.",
  drain: "They take nothing new, and go when the leases in force on them are over; the end must come after that.",
  maintenance: "Known ahead: promises are moved out of the way while there is time.",
});

export class OutageForm {
  /**
   * @param {import("../core/times.js").Times} times
   * @param {{name: string, count: number}[]} groups
   * @param {{ghost: (outage: any) => void, posted: () => Promise<unknown>}} tells
   */
  constructor(times, groups, tells) {
    this.times = times;
    this.groups = groups;
    this.tells = tells;
    /** What was tried last, as it was sent; null as soon as the form says something else. */
    this.tried = null;
    $("change").hidden = false;
    $("machines").replaceChildren(...groups.map((one) => make("option", { value: one.name, text: `${one.name} (${one.count})` })));
    const asked = readAddress({ ...FIELDS, machines: groups[0]?.name ?? "" });
    for (const name of Object.keys(FIELDS)) $(name).value = asked[/** @type {keyof typeof FIELDS} */ (name)];
    $("form").addEventListener("input", () => this.#changed());
    $("form").addEventListener("submit", (/** @type {Event} */ event) => {
      event.preventDefault();
      this.tryOut();
    });
    this.#show();
  }

  #show() {
    const byName = $("which").value === "names";
    $("names-line").hidden = !byName;
    $("count-line").hidden = byName;
    $("names").required = byName;
    $("count").required = !byName;
    $("count").disabled = byName;
    $("count").max = String(this.groups.find((one) => one.name === $("machines").value)?.count ?? 1);
    $("kind-says").textContent = KINDS[$("kind").value] ?? "";
  }

  #changed() {
    this.#show();
    const shown = Object.fromEntries(Object.keys(FIELDS).map((name) => [name, $(name).value]));
    keepAddress(shown, { ...FIELDS, machines: this.groups[0]?.name ?? "" });
    this.tried = null;
    this.tells.ghost(null);
    $("answer").replaceChildren();
  }

  /** What is sent to the server. */
  #body() {
    const which = $("which").value === "names"
      ? { names: $("names").value.split(/[\s,]+/).filter(Boolean) }
      : { count: Number($("count").value) };
    const [start, end] = [instantOf($("start").value, this.times), instantOf($("end").value, this.times)];
    const more = Object.fromEntries(["every", "reason"].map((name) => [name, $(name).value]).filter(([, value]) => value));
    return { kind: $("kind").value, machines: $("machines").value, ...which, ...more, ...(start === null ? {} : { start: number(start) }), end: number(end ?? "+0") };
  }

  /** Asks who would be affected; changes nothing. */
  async tryOut() {
    if (!$("form").reportValidity()) return;
    const body = this.#body();
    $("try").disabled = true;
    const done = await attempt($("answer"), () => call("POST", "/v1/cluster/outages?dry_run=true", { body }));
    $("try").disabled = false;
    if (!done) return;
    // The machines that were shown, whichever the server would choose by then.
    const { count: _, ...others } = body;
    this.tried = { ...others, names: done.body.outage.names };
    this.tells.ghost(done.body.outage);
    this.#offer(done.body);
    say(affectedWords(done.body, true));
  }

  /** @param {any} answer */
  #offer(answer) {
    const { outage } = answer;
    const what = `${count(outage.names.length)} of ${outage.machines}, ${this.times.span(outage.start, outage.end)}`;
    $("answer").replaceChildren(
      make("h3", { text: `Without ${what}` }),
      make("p", { class: "faint", text: namesOf(outage) }),
      affectedElement(answer, true),
      make("p", { class: "row" },
        make("button", { class: "danger", type: "button", id: "post", text: "Post this outage", on: { click: () => this.post(what) } }),
        make("span", { class: "faint", text: `As the Plan stands in version ${answer.version}. Nothing has changed yet.` })));
    $("post").scrollIntoView?.({ block: "nearest" });
  }

  /** @param {string} what */
  async post(what) {
    const body = this.tried;
    if (!body || !(await confirmed({ title: "Post this outage?", text: `${what}. Promises on these machines are moved or degraded.`, yes: "Post", danger: true }))) return;
    const place = make("div");
    $("answer").append(place);
    const done = await attempt(place, () => call("POST", "/v1/cluster/outages", { body }));
    if (!done) return;
    this.tried = null;
    this.tells.ghost(null);
    $("answer").replaceChildren(
      make("p", { class: "note", id: "posted", tabindex: "-1", text: `Posted: ${what}. The Plan is at version ${done.body.version}.` }),
      affectedElement(done.body, false));
    $("posted").focus();
    say(`Posted. ${affectedWords(done.body, false)}`);
    await this.tells.posted();
  }
}

/** Seconds as a number, all else as written. @param {string} text */
const number = (text) => (/^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text);
