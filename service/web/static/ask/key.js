// The key under which a request is asked for once, however often it is sent.
import { newKey, Problem } from "../core/api.js";

/** Whether it is open what became of a call: nobody answered, or the server could not say. @param {unknown} outcome */
export const isUnknown = (outcome) => outcome instanceof Problem && (outcome.status === 0 || outcome.status >= 500);

/**
 * Keeps one key as long as it is open whether the request was granted: nobody answered, or the
 * server could not say. The same request is then sent under the same key.
 */
export class AskKey {
  constructor() {
    this.key = "";
    this.text = "";
  }

  /** @param {unknown} body @returns {string} */
  of(body) {
    const text = JSON.stringify(body);
    if (!this.key || text !== this.text) [this.key, this.text] = [newKey(), text];
    return this.key;
  }

  /** Takes what came back: an answer, or what the call failed with. @param {unknown} outcome */
  told(outcome) {
    if (!isUnknown(outcome)) this.key = "";
  }
}
