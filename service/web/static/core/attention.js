// A line on every page while something is wrong: promises at risk, lost machines, problems.
import { read } from "./api.js";
import { $, make } from "./dom.js";
import { whenChanged } from "./live.js";

const LEAST_MS = 10_000;
const EVERY_MS = 60_000;

/**
 * Shows the line above the page.
 * @param {import("./live.js").Live} live @param {import("./times.js").Times} times
 */
export function followAttention(live, times) {
  const line = make("p", { class: "attention", hidden: true });
  $("main").prepend(line);
  const ask = async () => {
    try {
      const { attention } = await read("/v1/status");
      line.hidden = !attention.length;
      line.replaceChildren(make("a", { href: "/ui/", text: times.inText(attention.join("; ")) }));
    } catch {
      // the page says elsewhere that the server is away
    }
  };
  whenChanged(live, ask, { least: LEAST_MS, kinds: ["commit", "reset", "cluster", "start"] });
  window.setInterval(ask, EVERY_MS);
  ask();
}
