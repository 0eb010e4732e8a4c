// The client: the generated operations, and by hand what needs more than a call with JSON. The declarations are in index.d.ts.

import { Operations } from "./calls.js";
import { Problem, Unreachable, mayPass, retryAfterMs } from "./errors.js";
import { follow } from "./events.js";
import { SILENCE_MS, Transport, headerOfLabels, pause, segment } from "./http.js";
import { formOf } from "./multipart.js";
import { platform } from "./platform.js";

const AT_REST = ["completed", "failed", "cancelled", "resolved", "dead_lettered", "compensation_failed"];

/** One long poll. */
const POLL_MS = 30_000;

/** @typedef {import("./index.js").Client} Declared */

/** @implements {Declared} */
export class Client extends Operations {
  #http;
  #retryForMs;

  /**
   * @param {string} baseUrl
   * @param {import("./index.js").ClientOptions} [options]
   */
  constructor(baseUrl, { apiKey, timeoutMs = 10_000, retryForMs = 60_000, fetch = globalThis.fetch } = {}) {
    const http = new Transport(baseUrl, apiKey, timeoutMs, fetch);
    super(http);
    this.#http = http;
    this.#retryForMs = retryForMs;
  }

  /**
   * @param {string} type
   * @param {unknown} request
   * @param {import("./index.js").SubmitOptions} [options]
   * @returns {Promise<import("./index.js").Accepted>}
   */
  async submit(type, request, { key, labels, webhook, files, signal } = {}) {
    const path = `/api/tasks/${segment(type)}`;
    /** @type {Record<string, string>} */
    const headers = {};
    if (key !== undefined) headers["idempotency-key"] = key;
    if (labels && Object.keys(labels).length > 0) headers["counterstep-label"] = headerOfLabels(labels);
    if (webhook !== undefined) headers["counterstep-webhook"] = webhook;
    /** @type {import("./http.js").Request} */
    const sent = { headers, signal };
    const form = files && Object.keys(files).length > 0 ? await formOf(request, files) : undefined;
    if (form) {
      headers["content-type"] = form.contentType;
      // Of the body of a `Blob` it is not known how far it is.
      Object.assign(sent, { form: form.body, timeoutMs: form.hasPaths ? SILENCE_MS : 0 });
    } else {
      headers["content-type"] = "application/json";
      sent.body = JSON.stringify(request);
    }
    const attempt = async () => {
      await form?.check();
      const answer = await this.#http.open("POST", path, sent);
      const replayed = answer.response.headers.get("idempotency-replayed") === "true";
      return { ...(await answer.json()), replayed };
    };
    return key === undefined ? attempt() : this.#repeated(attempt, signal);
  }

  /**
   * @template T
   * @param {() => Promise<T>} attempt
   * @param {AbortSignal | undefined} signal
   */
  async #repeated(attempt, signal) {
    const end = Date.now() + this.#retryForMs;
    for (let backoff = 250; ; backoff = Math.min(2 * backoff, 8_000)) {
      let wait;
      try {
        return await attempt();
      } catch (error) {
        wait = retryAfterMs(error) ?? backoff * (0.5 + Math.random() / 2);
        if (!mayBeRepeated(error) || Date.now() + wait > end) throw error;
      }
      await pause(wait, signal);
    }
  }

  /**
   * @param {string} id
   * @param {{ timeoutMs?: number, signal?: AbortSignal }} [options]
   * @returns {Promise<import("./index.js").TaskView>}
   */
  async wait(id, { timeoutMs = Infinity, signal } = {}) {
    const end = Date.now() + timeoutMs;
    /** @type {number | undefined} */
    let failingSince;
    for (;;) {
      // An API that is about to stop answers a long poll at once.
      let wait = 250;
      const poll = Math.ceil(Math.max(0, Math.min(POLL_MS, end - Date.now())));
      try {
        /** @type {import("./index.js").TaskView} */
        const view = await this.#json("GET", id, "", {
          query: poll > 0 ? [["wait", `${poll}ms`]] : [],
          timeoutMs: poll + this.#http.timeoutMs,
          signal,
        });
        if (AT_REST.includes(view.status)) return view;
        failingSince = undefined;
      } catch (error) {
        failingSince ??= Date.now();
        wait = Math.max(wait, retryAfterMs(error) ?? 0);
        // A pause beyond the limit is not begun.
        const until = Math.max(Date.now(), Math.min(Date.now() + wait, end));
        if (!mayPass(error) || until - failingSince >= this.#retryForMs) throw error;
      }
      const left = end - Date.now();
      if (left <= 0) throw new DOMException(`task ${id} is not at rest after ${timeoutMs} ms`, "TimeoutError");
      await pause(Math.min(wait, left), signal);
    }
  }

  /**
   * @param {string} id
   * @param {{ lastEventId?: number, signal?: AbortSignal }} [options]
   * @returns {AsyncGenerator<import("./index.js").Event, void, undefined>}
   */
  events(id, { lastEventId = 0, signal } = {}) {
    return follow(this.#http, `/api/tasks/${segment(id)}/events`, lastEventId, this.#retryForMs, signal);
  }

  /**
   * @param {string} id
   * @param {string} name
   * @param {string | WritableStream<Uint8Array>} to
   * @param {{ signal?: AbortSignal }} [options]
   * @returns {Promise<number>}
   */
  async download(id, name, to, { signal } = {}) {
    const route = name.split("/").map(segment).join("/");
    const path = `/api/tasks/${segment(id)}/result/${route}`;
    const files = typeof to === "string" ? await platform() : undefined;
    const answer = await this.#http.open("GET", path, { signal });
    const pieces = answer.pieces(SILENCE_MS);
    return typeof to === "string" && files ? files.write(to, pieces) : copy(pieces, /** @type {WritableStream} */ (to));
  }

  /**
   * @param {string} id
   * @param {string} name
   * @param {{ validFor?: string, signal?: AbortSignal }} [options]
   * @returns {Promise<import("./index.js").ResultLink>}
   */
  async link(id, name, { validFor, signal } = {}) {
    const route = name.split("/").map(segment).join("/");
    const headers = { "content-type": "application/json" };
    const body = JSON.stringify({ valid_for: validFor });
    const link = await this.#json("POST", id, `/result/${route}/link`, { headers, body, signal });
    return { ...link, url: this.#http.whole(link.url) };
  }

  /**
   * @param {string} method
   * @param {string} id
   * @param {string} [behind]
   * @param {import("./http.js").Request} [request]
   */
  async #json(method, id, behind = "", request = {}) {
    return this.#http.json(method, `/api/tasks/${segment(id)}${behind}`, request);
  }
}

/**
 * @param {AsyncIterable<Uint8Array>} pieces
 * @param {WritableStream<Uint8Array>} to
 */
async function copy(pieces, to) {
  const writer = to.getWriter();
  let size = 0;
  try {
    for await (const piece of pieces) {
      // Not before there is room: memory stays flat.
      await writer.ready;
      await writer.write(piece);
      size += piece.length;
    }
    await writer.close();
  } catch (error) {
    await writer.abort(error).catch(() => {});
    throw error;
  }
  return size;
}

/**
 * Whether a submission with a key may be sent again. 502 and 504: a proxy has no answer of the API.
 *
 * @param {unknown} error
 */
function mayBeRepeated(error) {
  if (!(error instanceof Problem)) return error instanceof Unreachable;
  return [429, 502, 503, 504].includes(error.status) || (error.status === 409 && error.code === "in-progress");
}
