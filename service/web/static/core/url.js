// The address holds what is shown, so that it can be sent to somebody and read again.

/**
 * What the address says, over what is there where it says nothing.
 * @template {Record<string, string>} T
 * @param {T} defaults
 * @returns {T}
 */
export function readAddress(defaults) {
  const query = new URLSearchParams(location.search);
  const found = { ...defaults };
  for (const name of Object.keys(defaults)) {
    const value = query.get(name);
    if (value !== null) found[/** @type {keyof T} */ (name)] = /** @type {any} */ (value);
  }
  return found;
}

/**
 * Writes into the address what differs from the defaults; other parameters stay.
 * @param {Record<string, string|number|null|undefined>} shown
 * @param {Record<string, string>} [defaults]
 */
export function keepAddress(shown, defaults = {}) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(shown)) {
    const text = value === null || value === undefined ? "" : String(value);
    if (text === "" || text === defaults[name]) query.delete(name);
    else query.set(name, text);
  }
  const text = query.toString();
  const path = text ? `${location.pathname}?${text}` : location.pathname;
  if (path !== location.pathname + location.search) history.replaceState(history.state, "", path);
}

/** The last part of the path: the id of what the page is about; empty where there is none. */
export function idOfPath() {
  const parts = location.pathname.split("/").filter(Boolean);
  return parts.length > 2 ? decodeURIComponent(parts[2]) : "";
}
