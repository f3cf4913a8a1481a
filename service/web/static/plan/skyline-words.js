// The skyline in words and figures: the sentence below it, and its table.
import { $ } from "../core/dom.js";
import { amount } from "../core/numbers.js";
import { PagedTable } from "../core/table.js";

const ROWS = 24;

/**
 * @param {import("../chart/skyline.js").Skyline} skyline
 * @param {import("./series.js").Series} series
 * @param {import("../core/shell.js").Shell} shell
 */
export function followSkyline(skyline, series, shell) {
  const rest = () => {
    if (!series.body) return "";
    const { capacity, unit, resource } = series.body;
    const first = Math.max(0, Math.floor((skyline.stage.span.from - series.body.from) / series.body.step));
    const last = Math.ceil((skyline.stage.span.to - series.body.from) / series.body.step);
    const most = Math.max(0, ...skyline.total.slice(first, last));
    const shown = (/** @type {number} */ value) => amount(value, unit === "MiB" ? unit : "");
    return `At most ${shown(most)} of ${shown(Math.max(0, ...capacity.slice(first, last)))} ${unit === "cores" ? unit : resource} reserved ${shell.times.span(skyline.stage.span.from, skyline.stage.span.to)}`;
  };
  const show = (/** @type {string} */ text) => { $("skyline-says").textContent = text || rest(); };
  skyline.onpoint = show;
  let table = /** @type {PagedTable|null} */ (null);
  const fill = () => {
    if ($("skyline-rows").hidden || !series.body) return;
    table = tableOf(series.body, skyline, shell);
    $("skyline-rows").replaceChildren(table.element);
  };
  const update = () => {
    show(skyline.pointed === null ? "" : skyline.says(skyline.pointed));
    fill();
  };
  let later = 0;
  skyline.stage.span.addEventListener("change", () => {
    clearTimeout(later);
    later = window.setTimeout(update, 200);
  });
  series.addEventListener("change", update);
  shell.times.addEventListener("change", update);
  $("skyline-table").addEventListener("click", () => {
    const shown = $("skyline-rows").hidden;
    $("skyline-rows").hidden = !shown;
    $("skyline-table").setAttribute("aria-pressed", String(shown));
    fill();
  });
  update();
}

/** About two dozen instants of what is shown. @param {any} body @param {import("../chart/skyline.js").Skyline} skyline @param {import("../core/shell.js").Shell} shell */
function tableOf(body, skyline, shell) {
  const { span } = skyline.stage;
  const every = Math.max(body.step, Math.ceil(span.length / ROWS / body.step) * body.step);
  const rows = [];
  for (let at = Math.ceil(span.from / every) * every; at < span.to; at += every) {
    const n = Math.floor((at - body.from) / body.step);
    if (n >= 0 && n < body.capacity.length) rows.push({ at, n });
  }
  return new PagedTable({
    label: `${body.resource} held over time, by ${body.by}, in ${body.unit}`,
    rows,
    columns: [
      { title: "time", of: (row) => shell.times.full(row.at), sort: (row) => row.at },
      { title: "capacity", number: true, of: (row) => amount(body.capacity[row.n], body.unit) },
      { title: "held", number: true, of: (row) => amount(skyline.total[row.n], body.unit) },
      ...body.layers.map((/** @type {any} */ layer) => ({
        title: layer.name ?? "others", number: true, of: (/** @type {any} */ row) => amount(layer.amounts[row.n], ""),
      })),
    ],
  });
}
