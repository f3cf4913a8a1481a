// The token of this tab. It is kept as long as the tab; on this machine where its user wants that.

const PLACE = "agenda.token";

/** @returns {string|null} */
export const token = () => sessionStorage.getItem(PLACE) ?? localStorage.getItem(PLACE);

/**
 * @param {string} secret
 * @param {boolean} [stays] whether other tabs have it too, until somebody signs out
 */
export const keepToken = (secret, stays = false) =>
  (stays ? localStorage : sessionStorage).setItem(PLACE, secret);

export function dropToken() {
  sessionStorage.removeItem(PLACE);
  localStorage.removeItem(PLACE);
}

/** Goes to the page that asks for a token, and comes back here afterwards. */
export function goToSignIn() {
  const here = location.pathname + location.search;
  if (!location.pathname.startsWith("/ui/sign-in")) {
    location.assign(`/ui/sign-in?back=${encodeURIComponent(here)}`);
  }
}
