// Applications: the list, or one of them by the address.
import { ApplicationList } from "../applications/application-list.js";
import { ApplicationView } from "../applications/application-view.js";
import { $ } from "../core/dom.js";
import { addKeys } from "../core/keys.js";
import { whenChanged } from "../core/live.js";
import { attempt } from "../core/say.js";
import { openShell } from "../core/shell.js";
import { idOfPath } from "../core/url.js";

const shell = await openShell();
const id = idOfPath();
const view = id ? new ApplicationView(id, shell) : new ApplicationList(shell.times);
const refresh = () => attempt($("trouble"), () => view.refresh());

await refresh();
if (id) addKeys({ keys: ["Escape"], says: "All applications", act: () => location.assign("/ui/applications") });
else addKeys({ keys: ["/"], says: "Find", act: () => $("find").focus() });
shell.times.addEventListener("change", refresh);
whenChanged(shell.live, refresh, { kinds: ["tick", "reset"], least: 2000 });
// What was just submitted, or waits for another reason than before, is no change of the assignment.
setInterval(() => { if (!document.hidden) refresh(); }, 10_000);
document.body.dataset.ready = "";
