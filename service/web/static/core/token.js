// The token of this tab. It is kept as long as the tab, and nowhere else.

const PLACE = "agenda.token";

/** @returns {string|null} */
export const token = () => sessionStorage.getItem(PLACE);

/** @param {string} secret */
export const keepToken = (secret) => sessionStorage.setItem(PLACE, secret);

export const dropToken = () => sessionStorage.removeItem(PLACE);

/** Goes to the page that asks for a token, and comes back here afterwards. */
export function goToSignIn() {
  const here = location.pathname + location.search;
  if (!location.pathname.startsWith("/ui/sign-in")) {
    location.assign(`/ui/sign-in?back=${encodeURIComponent(here)}`);
  }
}
