// What every page has: who looks, the time, the live state, links by role, theme and keys.
import { Problem, read } from "./api.js";
import { $ } from "./dom.js";
import { addKeys, showKeys, startKeys } from "./keys.js";
import { Live } from "./live.js";
import { say, troubleOf } from "./say.js";
import { nextTheme, startTheme } from "./theme.js";
import { Times, zoneOf } from "./times.js";
import { dropToken, goToSignIn, token } from "./token.js";
import { readCaller } from "./user.js";

/**
 * @typedef {object} Shell
 * @property {import("./user.js").Caller} user
 * @property {Times} times
 * @property {Live} live
 * @property {any} cluster as `GET /v1/cluster` tells it
 */

const WORDS = { opening: "opening", live: "live", asking: "live, by asking", reconnecting: "reconnecting" };

/**
 * Opens the page's frame. The page waits for it, and then draws itself.
 * @returns {Promise<Shell>}
 */
export async function openShell() {
  startTheme();
  startKeys();
  try {
    const [user, cluster] = await Promise.all([readCaller(), read("/v1/cluster")]);
    const times = new Times(Date.parse(cluster.origin), zoneOf(cluster));
    times.hear((user.nowMs - times.originMs) / 1000);
    const live = new Live(user.name);
    offerLinks(user);
    followTimes(times);
    followLive(live, times);
    commonKeys(times);
    live.start();
    if (document.body.dataset.page !== "plan") import("./attention.js").then((m) => m.followAttention(live, times));
    return { user, times, live, cluster };
  } catch (error) {
    if (error instanceof Problem && error.status === 401) return new Promise(() => {}); // on the way to sign in
    $("main").append(troubleOf(error));
    $("live-text").textContent = "no answer";
    setTimeout(() => location.reload(), 5000);
    throw error;
  }
}

/** @param {import("./user.js").Caller} user */
function offerLinks(user) {
  document.querySelector("nav a[aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
  for (const link of document.querySelectorAll("nav a[data-role]")) {
    const { role, key, page } = /** @type {HTMLElement} */ (link).dataset;
    if (!user.may(/** @type {any} */ (role))) link.remove();
    else if (key) addKeys({ keys: [`g ${key}`], says: `${link.textContent}`, act: () => location.assign(/** @type {HTMLAnchorElement} */ (link).href) });
  }
  if (!user.asksTokens || !token()) return;
  const leave = $("who");
  leave.hidden = false;
  leave.title = `${user.name}, ${user.role}`;
  leave.textContent = `Sign out ${user.name}`;
  leave.addEventListener("click", () => {
    dropToken();
    goToSignIn();
  });
}

/** @param {Times} times */
function followTimes(times) {
  const button = $("zone");
  const show = () => {
    button.textContent = times.zone;
    button.title = `Times are ${times.zoneWords}. Press for ${times.choice === "cluster" ? "your time" : "the cluster’s time"}.`;
  };
  button.addEventListener("click", () => times.toggle());
  times.addEventListener("change", () => {
    show();
    say(`Times are ${times.zoneWords}.`);
  });
  show();
}

/** @param {Live} live @param {Times} times */
function followLive(live, times) {
  const show = () => {
    $("live").dataset.state = live.state;
    const since = times.clock(Math.floor(times.present() - (Date.now() - live.goodMs) / 1000));
    $("live-text").textContent = live.state === "behind" ? `behind since ${since}` : WORDS[live.state];
    if (live.version >= 0) $("version").textContent = `v ${live.version}`;
  };
  live.addEventListener("state", () => {
    show();
    if (live.state === "behind") say($("live-text").textContent);
  });
  live.addEventListener("happened", (event) => {
    const { data } = /** @type {CustomEvent} */ (event).detail;
    if (typeof data.now === "number") times.hear(data.now);
    show();
  });
  show();
}

/** @param {Times} times */
function commonKeys(times) {
  addKeys(
    { keys: ["d"], says: "Light, dark, as the system", act: nextTheme },
    { keys: ["z"], says: "Your time, the cluster’s time", act: () => times.toggle() },
    { keys: ["?"], says: "This list", act: showKeys },
  );
}

