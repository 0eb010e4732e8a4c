// Webhooks as https://www.standardwebhooks.com describes them.

import { InvalidWebhook } from "./errors.js";
import { webcrypto } from "./platform.js";

/** @type {typeof import("./index.js").verifyWebhook} */
export async function verifyWebhook(secrets, headers, body, options = {}) {
  const { toleranceSeconds = 300, now = Date.now() / 1000 } = options;
  const lookup = headers instanceof Headers ? headers : new Map(lowerCase(headers));
  /** @param {string} name */
  const header = (name) => {
    const value = lookup.get(name);
    if (typeof value !== "string") throw new InvalidWebhook(`missing header ${name}`);
    return value;
  };
  const [id, sentAt, signatures] = [header("webhook-id"), header("webhook-timestamp"), header("webhook-signature")];
  if (!/^\d+$/.test(sentAt)) throw new InvalidWebhook("invalid webhook-timestamp; expected seconds since 1970");
  // Written like this, a `now` that is no number does not pass.
  if (!(Math.abs(now - Number(sentAt)) <= toleranceSeconds)) {
    throw new InvalidWebhook("webhook-timestamp is too far from the clock of this machine");
  }
  const content = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const head = new TextEncoder().encode(`${id}.${sentAt}.`);
  const signed = new Uint8Array(head.length + content.length);
  signed.set(head);
  signed.set(content, head.length);
  const sent = signatures
    .split(" ")
    .filter((it) => it.startsWith("v1,"))
    .flatMap((it) => bytes(it.slice(3)) ?? []);
  const keys = (typeof secrets === "string" ? [secrets] : secrets).map(keyOf);
  const { subtle } = await webcrypto();
  let matches = false;
  for (const key of keys) {
    const imported = await subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
    for (const signature of sent) {
      // `verify` compares in constant time.
      matches = (await subtle.verify("HMAC", imported, signature, signed)) || matches;
    }
  }
  if (!matches) throw new InvalidWebhook("no signature matches");
  return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(content));
}

/** @param {Record<string, string | string[] | undefined>} headers */
function lowerCase(headers) {
  return Object.entries(headers).map(([name, value]) => /** @type {const} */ ([name.toLowerCase(), value]));
}

/** @param {string} secret */
function keyOf(secret) {
  const key = bytes(secret.replace(/^whsec_/, ""));
  if (!key || key.length === 0) throw new TypeError("invalid secret; expected whsec_ and base64");
  return key;
}

/** @param {string} base64 */
function bytes(base64) {
  try {
    return Uint8Array.from(atob(base64), (it) => it.charCodeAt(0));
  } catch {
    return undefined;
  }
}
