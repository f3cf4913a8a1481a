// Server-sent events read by fetch, which can show a token; EventSource cannot.
import { Problem } from "./api.js";
import { token } from "./token.js";

/** @typedef {{kind: string, id: string|null, data: any}} ServerEvent */

/** One block of a stream; null for a comment. @param {string} block @returns {ServerEvent|null} */
export function parseBlock(block) {
  let kind = "message";
  let id = null;
  const data = [];
  for (const line of block.split("\n")) {
    const [, field, value] = /^(\w+): ?(.*)$/.exec(line) ?? [];
    if (field === "event") kind = value;
    else if (field === "id") id = value;
    else if (field === "data") data.push(value);
  }
  return data.length ? { kind, id, data: JSON.parse(data.join("\n")) } : null;
}

/**
 * Reads a stream until it ends; calls `heard` for each event, and `alive` for each piece.
 * @param {string} path
 * @param {AbortSignal} signal
 * @param {(event: ServerEvent) => void} heard
 * @param {() => void} [alive]
 * @throws {Problem} where the server refuses
 */
export async function readEvents(path, signal, heard, alive = () => {}) {
  const secret = token();
  const headers = /** @type {Record<string, string>} */ ({ Accept: "text/event-stream" });
  if (secret) headers.Authorization = `Bearer ${secret}`;
  const answer = await fetch(path, { headers, signal, cache: "no-store" });
  if (!answer.ok || !answer.body) throw new Problem(answer.status, await answer.json().catch(() => ({})));
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    alive();
    text += value;
    const blocks = text.split("\n\n");
    text = /** @type {string} */ (blocks.pop());
    for (const block of blocks) {
      const event = parseBlock(block);
      if (event) heard(event);
    }
  }
}
