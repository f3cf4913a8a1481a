// Light, dark, or as the system: worn by the root element, kept in this browser.
import { $, make } from "./dom.js";

const PLACE = "agenda.theme";
const NEXT = /** @type {Record<string, string>} */ ({ system: "light", light: "dark", dark: "system" });

/** Tells "change" whenever colours differ from before. */
export const theme = new EventTarget();

/** @returns {string} */
export const chosenTheme = () => document.documentElement.dataset.theme ?? "system";

/** @param {string} name system, light or dark */
export function wear(name) {
  document.documentElement.dataset.theme = name;
  localStorage.setItem(PLACE, name);
  show();
  theme.dispatchEvent(new Event("change"));
}

export const nextTheme = () => wear(NEXT[chosenTheme()] ?? "system");

function show() {
  const button = $("theme");
  button.replaceChildren(make("span", { class: "wide", text: "Theme: " }), chosenTheme());
  button.title = "Light, dark, or as the system";
}

export function startTheme() {
  show();
  $("theme").addEventListener("click", nextTheme);
  for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)"]) {
    matchMedia(query).addEventListener("change", () => theme.dispatchEvent(new Event("change")));
  }
}
