// What an owner may do with a reservation: renegotiate, close, give up. Nothing changes unasked.
import { displacedWords } from "../ask/displaced.js";
import { call } from "../core/api.js";
import { make } from "../core/dom.js";
import { confirmed } from "../core/dialog.js";
import { layOut } from "../core/rdl-text.js";
import { attempt, say } from "../core/say.js";

const STANDS = ["accepted", "active", "degraded"];

/**
 * The buttons that a user may press; none where it may do nothing.
 * @param {import("./view.js").ReservationView} view
 * @returns {HTMLElement|null}
 */
export function changeButtons(view) {
  const { body, shell } = view;
  if (!STANDS.includes(body.state) || !shell.user.actsFor(body.tenant)) return null;
  const button = (/** @type {string} */ text, /** @type {() => void} */ act, kind = "") => make("button", { type: "button", class: kind || false, text, on: { click: act } });
  return make("div", { class: "row noprint" },
    button("Renegotiate", () => renegotiate(view)),
    body.state === "accepted" ? null : button("Close", () => close(view)),
    button("Cancel", () => giveUp(view), "danger"));
}

/** @param {import("./view.js").ReservationView} view */
async function close(view) {
  const text = "What it still holds is released, and it counts as completed.";
  if (!(await confirmed({ title: `Close ${view.id}?`, text, yes: "Close it" }))) return;
  await view.change(async () => {
    await call("POST", `${view.path}/close`);
    await view.reload();
    say(`${view.id} is closed.`);
  });
}

/** @param {import("./view.js").ReservationView} view */
async function giveUp(view) {
  const text = "What it holds from now on is released to others immediately. This cannot be undone.";
  if (!(await confirmed({ title: `Cancel ${view.id}?`, text, yes: "Cancel it", danger: true }))) return;
  await view.change(async () => {
    await call("DELETE", view.path, { match: String(view.body.revision) });
    await view.reload();
    say(`${view.id} is cancelled.`);
  });
}

/** Asks for another request in its place: tried first, then made. @param {import("./view.js").ReservationView} view */
function renegotiate(view) {
  const area = make("textarea", { rows: "10", spellcheck: "false", "aria-labelledby": "new-request", class: "rdl" });
  area.value = layOut(view.body.expression);
  const place = make("div");
  const answer = make("p", { class: "faint", text: "The old request stands until the new one is taken." });
  const dialog = make("dialog", { class: "wide", "aria-labelledby": "new-request" },
    make("h2", { id: "new-request", text: `Renegotiate ${view.id}` }), area, place, answer);
  const send = (/** @type {boolean} */ dry) => attempt(place, async () => {
    const { body } = await call("PUT", `${view.path}${dry ? "?dry_run=true" : ""}`, {
      body: { rdl: area.value, agent: view.body.agent }, match: String(view.body.revision),
    });
    return body;
  });
  const press = async (/** @type {boolean} */ dry) => {
    const body = await send(dry);
    if (!body) return;
    const { times } = view.shell;
    const text = `${dry ? "It would hold" : "It holds"} ${times.span(body.begin, body.finish)}.${displacedWords(body, dry)}`;
    answer.textContent = text;
    if (!dry) {
      dialog.close();
      await view.reload();
    }
    say(text);
  };
  dialog.append(make("div", { class: "row" },
    make("button", { type: "button", text: "Try", on: { click: () => press(true) } }),
    make("button", { type: "button", class: "main", text: "Change it", on: { click: () => press(false) } }),
    make("button", { type: "button", text: "Leave it", on: { click: () => dialog.close() } })));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
