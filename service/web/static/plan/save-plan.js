// The Plan's pictures as files, named by the time that they show.
import { offerSaving } from "../chart/save.js";
import { $ } from "../core/dom.js";

/**
 * @param {import("../chart/skyline.js").Skyline} skyline
 * @param {import("../chart/gantt.js").Gantt} gantt
 * @param {import("../core/shell.js").Shell} shell
 */
export function offerPictures(skyline, gantt, shell) {
  const drawn = [skyline, gantt].map((one) => ({
    stage: one.stage,
    draw: (/** @type {any} */ g, /** @type {number} */ w, /** @type {number} */ h) => one.draw(g, w, h),
  }));
  const name = () => `plan-${shell.times.date(skyline.stage.span.from).toISOString().slice(0, 16).replace(":", "")}`;
  offerSaving(drawn, name, { png: $("save-png"), svg: $("save-svg"), print: $("print") });
}
