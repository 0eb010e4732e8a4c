// What goes wrong: a refusal of the API, no answer, a webhook that is not authentic.

export class Problem extends Error {
  /**
   * @param {number} status
   * @param {Record<string, any>} document
   * @param {number | undefined} retryAfter
   */
  constructor(status, document, retryAfter) {
    const { code, pointer } = document;
    const detail = document.detail ?? document.title ?? `HTTP status ${status}`;
    super(`${status} ${code ?? "without a problem document"}: ${detail}${pointer ? ` (at ${pointer})` : ""}`);
    this.name = "Problem";
    this.status = status;
    /** @type {string | undefined} */
    this.code = code;
    /** @type {string} */
    this.detail = detail;
    /** @type {string | undefined} */
    this.pointer = pointer;
    this.retryAfter = retryAfter;
    this.document = document;
  }
}

export class Unreachable extends Error {
  /**
   * @param {string} what
   * @param {any} cause
   */
  constructor(what, cause) {
    // The message of `fetch` is always the same; the reason is its cause.
    super(`${what}: ${cause?.cause?.message || cause?.message || cause}`, { cause });
    this.name = "Unreachable";
  }
}

export class InvalidWebhook extends Error {
  /** @param {string} what */
  constructor(what) {
    super(what);
    this.name = "InvalidWebhook";
  }
}

/**
 * @param {Response} response
 * @param {string} body
 */
export function problemOf(response, body) {
  let document;
  try {
    document = JSON.parse(body);
  } catch {
    document = undefined;
  }
  const isObject = typeof document === "object" && document !== null && !Array.isArray(document);
  return new Problem(response.status, isObject ? document : {}, seconds(response.headers.get("retry-after")));
}

/**
 * `Retry-After`: seconds, or a date, which proxies send.
 *
 * @param {string | null} text
 */
function seconds(text) {
  if (text === null) return undefined;
  if (/^\d+$/.test(text)) return Number(text);
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : Math.max(0, (at - Date.now()) / 1000);
}

/**
 * Whether a request without effects may be answered a little later.
 *
 * @param {unknown} error
 */
export function mayPass(error) {
  if (error instanceof Problem) return [408, 429].includes(error.status) || error.status >= 500;
  return error instanceof Unreachable;
}

/**
 * @param {unknown} error
 * @returns {number | undefined}
 */
export function retryAfterMs(error) {
  return error instanceof Problem && error.retryAfter !== undefined ? error.retryAfter * 1000 : undefined;
}
