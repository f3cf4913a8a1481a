// Calls of the server: JSON in and out, the token shown, failures as a Problem (RFC 9457).
import { dropToken, goToSignIn, token } from "./token.js";

/** What a call failed with. */
export class Problem extends Error {
  /** @param {number} status @param {any} body */
  constructor(status, body) {
    super(body.detail ?? body.title ?? `the server answered ${status}`);
    this.status = status;
    this.code = body.code ?? "unknown";
    this.body = body;
    this.title = body.title ?? "";
    /** @type {{pointer: string, span: [number, number]|null, code: string, message: string, fix: string|null}[]} */
    this.errors = body.errors ?? [];
    this.refusal = body.refusal ?? null;
  }
}

/**
 * @typedef {object} Settings
 * @property {any} [body] sent as JSON
 * @property {AbortSignal} [signal]
 * @property {string} [key] an Idempotency-Key
 * @property {string} [match] a revision, for If-Match
 * @property {string|null} [tag] an ETag, for If-None-Match: the answer's `status` may be 304
 */

/** @param {Settings} settings @returns {Record<string, string>} */
function headersOf({ body, key, match, tag }) {
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json" };
  const secret = token();
  if (secret) headers.Authorization = `Bearer ${secret}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (key) headers["Idempotency-Key"] = key;
  if (match) headers["If-Match"] = match === "*" ? "*" : `"${match}"`;
  if (tag) headers["If-None-Match"] = tag;
  return headers;
}

/**
 * Makes a call; answers with status, body and ETag.
 * @param {string} method
 * @param {string} path
 * @param {Settings} [settings]
 * @returns {Promise<{status: number, body: any, tag: string|null}>}
 * @throws {Problem} also where nobody answers: its status is 0
 */
export async function call(method, path, settings = {}) {
  let answer;
  try {
    answer = await fetch(path, {
      method,
      headers: headersOf(settings),
      body: settings.body === undefined ? undefined : JSON.stringify(settings.body),
      signal: settings.signal,
      cache: "no-store",
    });
  } catch (error) {
    if (/** @type {Error} */ (error).name === "AbortError") throw error;
    throw new Problem(0, { code: "no_answer", detail: "The server does not answer." });
  }
  if (answer.status === 401) {
    dropToken();
    goToSignIn();
  }
  if (answer.ok || answer.status === 304) {
    const body = answer.status === 304 || answer.status === 204 ? null : await answer.json();
    return { status: answer.status, body, tag: answer.headers.get("ETag") };
  }
  throw new Problem(answer.status, await answer.json().catch(() => ({})));
}

/**
 * The body of a GET.
 * @param {string} path
 * @param {Settings} [settings]
 * @returns {Promise<any>}
 */
export const read = async (path, settings) => (await call("GET", path, settings)).body;

/**
 * A path with a query; what is null, undefined or empty is left out.
 * @param {string} path
 * @param {Record<string, string|number|boolean|null|undefined>} query
 */
export function withQuery(path, query) {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") parts.set(name, String(value));
  }
  return parts.size ? `${path}?${parts}` : path;
}

/** A key under which a change is made once, however often it is sent. */
export const newKey = () => Array.from(crypto.getRandomValues(new Uint8Array(16)),
  (byte) => byte.toString(16).padStart(2, "0")).join("");
