import { openShell } from "../core/shell.js";

await openShell();
