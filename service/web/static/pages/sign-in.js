// Sign in: a token is tried on the server before it is kept, and nothing is shown without one.
import { $ } from "../core/dom.js";
import { addKeys, showKeys, startKeys } from "../core/keys.js";
import { Problem } from "../core/api.js";
import { say, troubleOf } from "../core/say.js";
import { nextTheme, startTheme } from "../core/theme.js";
import { dropToken, keepToken } from "../core/token.js";

/** Where to go on: a page of this server, and nothing else. */
function pageBefore() {
  const back = new URLSearchParams(location.search).get("back") ?? "";
  try {
    const found = new URL(back, location.origin);
    const isPage = found.origin === location.origin && found.pathname.startsWith("/ui/");
    return isPage && found.pathname !== location.pathname ? found.pathname + found.search : "/ui/";
  } catch {
    return "/ui/";
  }
}

/**
 * Who a token belongs to; no token: who calls without one.
 * @param {string} [secret]
 * @throws {Problem}
 */
async function whose(secret) {
  const headers = /** @type {Record<string, string>} */ (secret === undefined ? {} : { Authorization: `Bearer ${secret}` });
  let answer;
  try {
    answer = await fetch("/v1/user", { headers, cache: "no-store" });
  } catch {
    throw new Problem(0, { detail: "The server does not answer." });
  }
  if (answer.ok) return answer.json();
  throw new Problem(answer.status, await answer.json().catch(() => ({})));
}

/** @param {unknown} error */
function whatWasWrong(error) {
  if (error instanceof Problem && error.status === 401) {
    return new Problem(401, { code: error.code, detail: "The token is unknown to this server, or has expired." });
  }
  return error;
}

/** @param {SubmitEvent} event */
async function signIn(event) {
  event.preventDefault();
  const [field, enter] = [$("token"), $("enter")];
  const secret = field.value.trim();
  if (!/^[!-~]{1,512}$/.test(secret)) {
    show(new Problem(400, { code: "malformed", detail: "A token is one word of letters, digits and signs." }));
    return;
  }
  enter.disabled = true;
  try {
    const user = await whose(secret);
    dropToken();
    keepToken(secret, $("stay").checked);
    say(`Signed in as ${user.name}.`);
    location.replace(pageBefore());
  } catch (error) {
    show(whatWasWrong(error));
  } finally {
    enter.disabled = false;
  }
}

/** @param {unknown} error */
function show(error) {
  $("trouble").replaceChildren(troubleOf(error));
  $("token").setAttribute("aria-invalid", "true");
  $("token").focus();
}

startTheme();
startKeys();
addKeys(
  { keys: ["d"], says: "Light, dark, as the system", act: nextTheme },
  { keys: ["?"], says: "This list", act: showKeys },
);
$("form").addEventListener("submit", signIn);
$("show").addEventListener("change", () => { $("token").type = $("show").checked ? "text" : "password"; });
$("token").focus();
try {
  await whose();
  $("form").hidden = true;
  $("open").hidden = false;
} catch { /* a token is asked for: the form is there */ }
document.body.dataset.ready = "";
