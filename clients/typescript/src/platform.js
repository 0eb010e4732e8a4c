// Which module is the platform's.

/**
 * @typedef {object} Platform
 * @property {Crypto} webcrypto
 * @property {(path: string) => string} nameOf
 * @property {(path: string) => Promise<void>} check Refuses a path that cannot be read.
 * @property {(path: string) => AsyncIterable<Uint8Array>} read
 * @property {(path: string, pieces: AsyncIterable<Uint8Array>) => Promise<number>} write All of the pieces, or no file.
 */

/**
 * By a name of package.json, so that bundlers for browsers take another module; and only when it is needed, so that
 * browsers without a bundler never look for it.
 *
 * @returns {Promise<Platform>}
 */
export function platform() {
  return import("#platform");
}

/** @returns {Promise<Crypto>} */
export async function webcrypto() {
  return globalThis.crypto ?? (await platform()).webcrypto;
}
