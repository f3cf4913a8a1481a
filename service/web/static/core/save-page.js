// Saves what a page shows, or prints it. What draws it is loaded once it is asked for.
import { $ } from "./dom.js";
import { attempt } from "./say.js";

/** @param {"png"|"svg"} kind */
const save = (kind) => attempt($("save-trouble"), async () => {
  const [{ photoOf, pngPhotoOf }, { download }] = await Promise.all([import("../chart/photo.js"), import("../chart/save.js")]);
  const main = $("main");
  const blob = kind === "png" ? await pngPhotoOf(main) : new Blob([photoOf(main)], { type: "image/svg+xml" });
  const name = location.pathname.split("/").filter(Boolean).slice(1).join("-");
  download(blob, `${name}.${kind}`);
});

$("save-png").addEventListener("click", () => save("png"));
$("save-svg").addEventListener("click", () => save("svg"));
$("print").addEventListener("click", () => print());
