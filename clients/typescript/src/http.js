// Requests and answers: addresses, time limits, and which failure is which.

import { Unreachable, problemOf } from "./errors.js";

/** How long the transfer of a file may make no progress. */
export const SILENCE_MS = 30_000;

/**
 * @typedef {object} Request
 * @property {[string, string][]} [query]
 * @property {Record<string, string>} [headers]
 * @property {BodyInit} [body]
 * @property {(moved: () => void) => Form} [form] In place of `body`, for one request.
 * @property {number} [timeoutMs] Until the answer, all of it where it is JSON; 0: no limit.
 * @property {AbortSignal | undefined} [signal]
 */

/**
 * @typedef {object} Form
 * @property {BodyInit | undefined} body
 * @property {boolean} isStream
 * @property {unknown} [failure] What went wrong where the stream comes from: that is no failure of the connection.
 */

/**
 * One segment of a path, whatever it holds.
 *
 * @param {string} text
 */
export function segment(text) {
  // `fetch` would take these for steps to other folders, in any spelling.
  if (["", ".", ".."].includes(text)) throw new TypeError(`invalid segment of a path: "${text}"`);
  return encodeURIComponent(text);
}

/** A limit on time that can be moved, together with the signal of the caller. */
class Limit {
  #controller = new AbortController();
  #caller;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #hasEnded = false;
  #abort = () => this.#controller.abort(this.#caller?.reason);

  /** @param {AbortSignal | undefined} caller */
  constructor(caller) {
    this.#caller = caller;
    if (caller?.aborted) this.#abort();
    else caller?.addEventListener("abort", this.#abort, { once: true });
  }

  get signal() {
    return this.#controller.signal;
  }

  /** @param {number} ms From now on; 0: none. */
  set(ms) {
    clearTimeout(this.#timer);
    if (this.#hasEnded) return;
    const expire = () => this.#controller.abort(new DOMException(`nothing arrived within ${ms} ms`, "TimeoutError"));
    this.#timer = ms > 0 ? setTimeout(expire, ms) : undefined;
  }

  end() {
    this.#hasEnded = true;
    this.set(0);
    this.#caller?.removeEventListener("abort", this.#abort);
  }

  /**
   * What a failure is: what the caller aborted with, or that there is no answer.
   *
   * @param {string} what
   * @param {unknown} error
   */
  failure(what, error) {
    return this.#caller?.aborted ? this.#caller.reason : new Unreachable(what, error);
  }
}

/** An answer that is a success, and whose body is still to be read. */
class Answer {
  /**
   * @param {Response} response
   * @param {Limit} limit
   * @param {string} what
   */
  constructor(response, limit, what) {
    this.response = response;
    this.limit = limit;
    this.what = what;
  }

  async text() {
    try {
      return await this.response.text();
    } catch (error) {
      throw this.limit.failure(this.what, error);
    } finally {
      this.limit.end();
    }
  }

  /** @returns {Promise<any>} */
  async json() {
    const text = await this.text();
    try {
      return JSON.parse(text);
    } catch (error) {
      throw new Unreachable(`${this.what}: the answer is not JSON`, error);
    }
  }

  /**
   * The body as it arrives. One that breaks off is an error.
   *
   * @param {number} silenceMs A piece arrives within this.
   * @returns {AsyncGenerator<Uint8Array, void, undefined>}
   */
  async *pieces(silenceMs) {
    const reader = this.response.body?.getReader();
    try {
      while (reader) {
        this.limit.set(silenceMs);
        let piece;
        try {
          piece = await reader.read();
        } catch (error) {
          throw this.limit.failure(`${this.what}: the answer broke off`, error);
        }
        // The time that the reader of the pieces takes does not count.
        this.limit.set(0);
        if (piece.done) return;
        yield piece.value;
      }
    } finally {
      this.limit.end();
      await reader?.cancel().catch(() => {});
    }
  }
}

export class Transport {
  #base;
  #headers;
  #fetch;

  /**
   * @param {string} baseUrl
   * @param {string | undefined} apiKey
   * @param {number} timeoutMs
   * @param {typeof fetch} fetch
   */
  constructor(baseUrl, apiKey, timeoutMs, fetch) {
    const base = new URL(baseUrl);
    if (!/^https?:$/.test(base.protocol) || base.search || base.hash || base.username) {
      throw new TypeError("invalid address; expected http://HOST:PORT or https://HOST");
    }
    if (apiKey !== undefined && !/^[!-~]+$/.test(apiKey)) {
      throw new TypeError("invalid API key; expected one line of visible ASCII characters");
    }
    this.#base = base.href.replace(/\/+$/, "");
    this.#headers = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
    this.timeoutMs = timeoutMs;
    // Unbound, browsers refuse it.
    this.#fetch = /** @type {typeof fetch} */ ((input, init) => fetch(input, init));
  }

  /**
   * An address of the API from its path. That begins with where the API is mounted, which the base has too; what a proxy
   * takes away the base has alone.
   *
   * @param {string} path
   */
  whole(path) {
    const { origin, pathname } = new URL(this.#base);
    const mount = pathname.replace(/\/+$/, "");
    return `${origin}${path.startsWith(`${mount}/`) ? "" : mount}${path}`;
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {Request} [request]
   */
  async open(method, path, { query = [], headers = {}, body, form, timeoutMs = this.timeoutMs, signal } = {}) {
    const what = `${method} ${path}`;
    // What cannot stand in a header is an error of the caller, and not of the connection.
    const allHeaders = new Headers({ ...this.#headers, ...headers });
    const limit = new Limit(signal);
    /** @type {Form} */
    const sent = form?.(() => limit.set(SILENCE_MS)) ?? { body, isStream: false };
    const init = {
      method,
      headers: allHeaders,
      // A redirect is not followed: the key would go to another address, and a POST become a GET. Of a stream Node.js
      // keeps all that it has sent, unless a redirect is an error.
      redirect: /** @type {RequestRedirect} */ (sent.isStream ? "error" : "manual"),
      signal: limit.signal,
      ...(sent.body === undefined ? {} : { body: sent.body }),
      ...(sent.isStream ? { duplex: "half" } : {}),
    };
    const search = query.length > 0 ? `?${new URLSearchParams(query)}` : "";
    limit.set(timeoutMs);
    let response;
    try {
      response = await this.#fetch(`${this.#base}${path}${search}`, init);
    } catch (error) {
      limit.end();
      throw sent.failure ?? limit.failure(what, error);
    }
    const answer = new Answer(response, limit, what);
    if (response.ok) return answer;
    throw problemOf(response, await answer.text());
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {Request} [request]
   * @returns {Promise<any>}
   */
  async json(method, path, request) {
    return (await this.open(method, path, request)).json();
  }
}

/**
 * `Counterstep-Label`, with each value in quotes, so that a comma does not end it.
 *
 * @param {Record<string, string>} labels
 */
export function headerOfLabels(labels) {
  const all = Object.entries(labels).map(([name, value]) => `${name}="${value.replace(/[\\"]/g, "\\$&")}"`);
  // `fetch` sends a byte for each character.
  return String.fromCharCode(...new TextEncoder().encode(all.join(", ")));
}

/**
 * @param {number} ms
 * @param {AbortSignal} [signal]
 * @returns {Promise<void>}
 */
export function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const abort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", abort, { once: true });
  });
}
