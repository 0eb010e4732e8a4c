// The stream of a task, opened again after each cut.

import { mayPass, retryAfterMs } from "./errors.js";
import { pause } from "./http.js";

/** How long a stream may send no byte before it is opened again. The API sends a comment every 15 seconds. */
const SILENCE_MS = 60_000;

const TERMINAL = ["completed", "failed", "cancelled", "resolved"];

/** What has arrived of a `text/event-stream`. Lines end with LF or CR LF. */
export class Lines {
  #decoder = new TextDecoder();
  #rest = "";
  #event = "";
  /** @type {string[]} */
  #data = [];
  /** @type {number | undefined} The pause before the next connection, as the field `retry` has it. */
  retryMs;

  /**
   * The messages that this completes.
   *
   * @param {Uint8Array} piece
   */
  push(piece) {
    const lines = (this.#rest + this.#decoder.decode(piece, { stream: true })).split("\n");
    this.#rest = lines.pop() ?? "";
    const messages = [];
    for (const whole of lines) {
      const line = whole.replace(/\r$/, "");
      const [, field, value = ""] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ?? [];
      if (line === "") {
        if (this.#data.length > 0) messages.push({ event: this.#event, data: this.#data.join("\n") });
        this.#event = "";
        this.#data = [];
      } else if (field === "event") {
        this.#event = value;
      } else if (field === "data") {
        this.#data.push(value);
      } else if (field === "retry" && /^\d+$/.test(value)) {
        this.retryMs = Number(value);
      }
    }
    return messages;
  }
}

/**
 * @param {import("./http.js").Transport} http
 * @param {string} path
 * @param {number} last
 * @param {number} retryForMs
 * @param {AbortSignal | undefined} signal
 * @returns {AsyncGenerator<import("./index.js").Event, void, undefined>}
 */
export async function* follow(http, path, last, retryForMs, signal) {
  let wait = 500;
  let status;
  /** @type {number | undefined} */
  let failingSince;
  for (;;) {
    let failure;
    const lines = new Lines();
    try {
      /** @type {Record<string, string>} */
      const headers = { accept: "text/event-stream", ...(last > 0 ? { "last-event-id": String(last) } : {}) };
      const answer = await http.open("GET", path, { headers, signal });
      if (answer.response.status === 204) {
        await answer.text();
        return;
      }
      for await (const piece of answer.pieces(SILENCE_MS)) {
        failingSince = undefined;
        for (const message of lines.push(piece)) {
          const data = JSON.parse(message.data);
          if (message.event === "progress") {
            yield { type: "progress", data };
          } else if (message.event === "" && data.seq > last) {
            last = data.seq;
            status = data.status;
            yield { type: "entry", id: data.seq, data };
          }
        }
      }
      if (TERMINAL.includes(status)) return;
    } catch (error) {
      if (!mayPass(error)) throw error;
      failure = error;
    }
    wait = lines.retryMs ?? wait;
    let now = wait;
    if (failure !== undefined) {
      now = Math.max(wait, retryAfterMs(failure) ?? 0);
      failingSince ??= Date.now();
      if (Date.now() + now - failingSince > retryForMs) throw failure;
    }
    await pause(now, signal);
  }
}
