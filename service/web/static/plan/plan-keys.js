// Keys of the Plan: time, choice, layers, lists.
import { $ } from "../core/dom.js";
import { addKeys } from "../core/keys.js";
import { say } from "../core/say.js";

const CLOSER = 0.7;

/** @param {any} parts of the page */
export function planKeys({ span, skyline, gantt, shell, lists, pane, series, showAlone }) {
  /** @param {() => void} move */
  const told = (move) => () => {
    move();
    if (document.activeElement?.id === "skyline") {
      skyline.point((span.from + span.to) / 2);
      say(skyline.says((span.from + span.to) / 2));
    } else say(shell.times.span(span.from, span.to));
  };
  addKeys(
    { keys: ["ArrowLeft"], shown: "←", says: "Earlier", act: told(() => span.pan(-0.1)) },
    { keys: ["ArrowRight"], shown: "→", says: "Later", act: told(() => span.pan(0.1)) },
    { keys: ["+", "="], says: "Closer", act: told(() => span.zoom(CLOSER)) },
    { keys: ["-"], shown: "−", says: "Wider", act: told(() => span.zoom(1 / CLOSER)) },
    { keys: ["0"], says: "All of the time", act: told(() => span.whole()) },
    { keys: ["n"], says: "Now", act: told(() => span.center(shell.times.present())) },
    { keys: ["ArrowUp"], shown: "↑", says: "The reservation above", act: () => gantt.choose(gantt.chosen - 1) },
    { keys: ["ArrowDown"], shown: "↓", says: "The reservation below", act: () => gantt.choose(gantt.chosen + 1) },
    { keys: ["PageUp"], shown: "PgUp", says: "A page up", act: () => gantt.choose(gantt.chosen - gantt.page) },
    { keys: ["PageDown"], shown: "PgDn", says: "A page down", act: () => gantt.choose(gantt.chosen + gantt.page) },
    { keys: ["Home"], says: "The first", act: () => gantt.choose(0) },
    { keys: ["End"], says: "The last", act: () => gantt.choose(gantt.bars.length - 1) },
    { keys: ["Enter"], says: "Open the chosen reservation", act: () => gantt.bars[gantt.chosen] && pane.open(gantt.bars[gantt.chosen].id) },
    { keys: ["Escape"], shown: "Esc", says: "Close the pane; leave a field", field: true, act: () => pane.close() },
    { keys: ["/"], says: "Find", act: () => $("find").focus() },
    { keys: ["f"], says: "Fit all lanes", act: () => $("fit").click() },
    { keys: ["b"], says: "Reservations as a table", act: () => $("as-table").click() },
    { keys: ["x"], says: "What was refused", act: () => lists.toggleRefused() },
    {
      keys: ["1", "2", "3", "4", "5", "6", "7", "8", "9"],
      shown: "1 … 9",
      says: "One layer alone; again: all",
      act: (key) => {
        const layer = series.body?.layers[Number(key) - 1];
        if (layer) showAlone(layer.name);
      },
    },
  );
}
