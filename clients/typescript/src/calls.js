// How the generated operations ask the API: with a query or JSON, and for JSON, a list page by page, or nothing.

import { segment } from "./http.js";
import { OPERATIONS } from "./operations.js";

/** @typedef {import("./index.js").CallOptions & { key?: string }} Options */

/**
 * @param {import("./http.js").Transport} http
 * @param {import("./operations.js").Asked} call
 * @param {any[]} given
 */
function ask(http, { method, path, sends, answer }, given) {
  // The path has `{name}` for each of the first arguments; what is sent and the options come behind them.
  const rest = [...given];
  const target = path.replace(/\{\w+\}/g, () => segment(rest.shift()));
  const sent = sends === undefined ? undefined : rest.shift();
  /** @type {Options} */
  const { signal, key } = rest.shift() ?? {};
  /** @type {Record<string, string>} */
  const headers = key === undefined ? {} : { "idempotency-key": key };
  /** @type {import("./http.js").Request} */
  const request = { headers, signal };
  if (sends === "query") request.query = Object.entries(sent ?? {}).flatMap(([name, value]) => pairs(name, value));
  if (sends === "body") {
    headers["content-type"] = "application/json";
    request.body = JSON.stringify(sent ?? {});
  }
  if (answer === "items") return pages(http, method, target, request);
  if (answer === "json") return http.json(method, target, request);
  return http.open(method, target, request).then(async (it) => void (await it.text()));
}

/**
 * @param {string} name
 * @param {unknown} value
 * @returns {[string, string][]}
 */
function pairs(name, value) {
  if (value === undefined || value === null) return [];
  return [value].flat().map((it) => [name, it instanceof Date ? it.toISOString() : String(it)]);
}

/**
 * @param {import("./http.js").Transport} http
 * @param {string} method
 * @param {string} path
 * @param {import("./http.js").Request} request
 */
async function* pages(http, method, path, request) {
  /** @type {[string, string][]} */
  let cursor = [];
  for (;;) {
    const page = await http.json(method, path, { ...request, query: [...(request.query ?? []), ...cursor] });
    yield* page.items;
    if (page.next_cursor === undefined || page.next_cursor === null) return;
    cursor = [["cursor", page.next_cursor]];
  }
}

class Groups {
  /** @param {import("./http.js").Transport} http */
  constructor(http) {
    for (const [group, calls] of Object.entries(OPERATIONS)) {
      const methods = Object.entries(calls).map(([word, call]) => [
        word,
        /** @param {any[]} given */ (...given) => ask(http, call, given),
      ]);
      Object.defineProperty(this, group, { value: Object.freeze(Object.fromEntries(methods)), enumerable: true });
    }
  }
}

/** What has a group of methods for each group of operations. */
export const Operations = /** @type {new (http: import("./http.js").Transport) => import("./index.js").Operations} */ (
  /** @type {unknown} */ (Groups)
);
