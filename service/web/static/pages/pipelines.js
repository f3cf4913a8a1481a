// Pipelines: the list, or one of them by the address.
import { $ } from "../core/dom.js";
import { addKeys } from "../core/keys.js";
import { whenChanged } from "../core/live.js";
import { attempt } from "../core/say.js";
import { openShell } from "../core/shell.js";
import { idOfPath } from "../core/url.js";
import { PipelineList } from "../pipelines/pipeline-list.js";
import { PipelineView } from "../pipelines/pipeline-view.js";

const shell = await openShell();
const id = idOfPath();
const view = id ? new PipelineView(id, shell) : new PipelineList(shell.times);
const refresh = () => attempt($("trouble"), () => view.refresh());

await refresh();
if (id) addKeys({ keys: ["Escape"], says: "All pipelines", act: () => location.assign("/ui/pipelines") });
shell.times.addEventListener("change", refresh);
whenChanged(shell.live, refresh, { kinds: ["tick", "commit", "reset"], least: 2000 });
// What a run writes is no event.
setInterval(() => { if (!document.hidden) refresh(); }, 5_000);
document.body.dataset.ready = "";
