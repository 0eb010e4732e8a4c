// Where there are no paths: browsers.

function refuse() {
  throw new TypeError("paths need Node.js; give a File, or a stream to write to");
}

export const webcrypto = globalThis.crypto;
export { refuse as check, refuse as nameOf, refuse as read, refuse as write };
