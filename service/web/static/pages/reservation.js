// One reservation, or what became of a request that was refused.
import { $ } from "../core/dom.js";
import { attempt } from "../core/say.js";
import { openShell } from "../core/shell.js";
import { idOfPath } from "../core/url.js";
import { ReservationView } from "../reservation/view.js";

const shell = await openShell();
const id = idOfPath();
document.title = `${id} · Agenda`;
$("title").textContent = id;
const view = new ReservationView(shell, id, $("view"));
await attempt($("trouble"), () => view.load());
view.show();
document.body.dataset.ready = "";
