// A run on a time line: of each stage the slots that it was promised as a frame, and when it ran as a bar.
import { make } from "../core/dom.js";

export const OVER = ["completed", "failed", "killed", "rejected"];

/** The state of a stage in the words of the legend. @param {any} stage */
export function markOf(stage) {
  if (stage.state === "completed") return stage.late ? "late" : "done";
  if (stage.state === "rejected") return "skipped";
  if (OVER.includes(stage.state)) return "failed";
  if (stage.late) return "late";
  return stage.state === "queued" ? "waiting" : "running";
}

/** @param {string|null} text */
const msOf = (text) => (text ? Date.parse(text) : null);

/**
 * @param {any} run
 * @param {import("../core/times.js").Times} times
 * @param {(stage: string) => void} choose
 */
export function timeline(run, times, choose) {
  const now = times.originMs + 1000 * times.present();
  const marks = run.stages.flatMap((/** @type {any} */ one) =>
    [one.start_at, one.end_at, one.started_at, one.ended_at].map(msOf).filter((ms) => ms !== null));
  if (run.state === "running") marks.push(now);
  if (!marks.length) return make("p", { class: "faint", text: "Its times are not known any more." });
  const from = Math.min(...marks);
  const length = Math.max(...marks, from + 1000) - from;
  /** @param {number} ms */
  const share = (ms) => `${(100 * (ms - from)) / length}%`;
  /** @param {string} kind @param {number|null} start @param {number|null} end */
  const bar = (kind, start, end) => {
    if (start === null || end === null) return null;
    const made = make("i", { class: kind });
    made.style.left = share(start);
    made.style.width = `max(2px, ${(100 * (end - start)) / length}%)`;
    return made;
  };
  const rows = run.stages.map((/** @type {any} */ stage) => {
    const began = msOf(stage.started_at);
    const words = `${stage.name}: promised ${spanOf(times, stage.start_at, stage.end_at)}; ran ${spanOf(times, stage.started_at, stage.ended_at)}`;
    return make("div", { class: "lane" },
      make("button", { type: "button", class: "quiet", text: stage.name, on: { click: () => choose(stage.name) } }),
      make("span", { class: "track", role: "img", "aria-label": words, title: words },
        bar("promise", msOf(stage.start_at), msOf(stage.end_at)),
        bar(`ran ${markOf(stage)}`, began, msOf(stage.ended_at) ?? now)),
      make("span", { class: "faint", text: [stage.state, stage.tasks ? `${stage.tasks.done} of ${stage.tasks.count} tasks` : "", stage.retries ? `retry ${stage.retries}` : "", stage.attempt > 1 ? `attempt ${stage.attempt}` : "", stage.reason].filter(Boolean).join(", ") }));
  });
  /** @param {number} ms */
  const clock = (ms) => times.full((ms - times.originMs) / 1000);
  return make("div", { class: "lanes" }, ...rows,
    make("div", { class: "lane faint" }, make("span"), make("span", { class: "ends" }, make("span", { text: clock(from) }), make("span", { text: clock(from + length) })), make("span")));
}

/** @param {import("../core/times.js").Times} times @param {string|null} from @param {string|null} to */
function spanOf(times, from, to) {
  if (!from) return "not yet";
  return `${times.ofText(from)} – ${to ? times.ofText(to) : "now"}`;
}
