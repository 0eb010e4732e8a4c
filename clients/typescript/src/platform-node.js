// What Node.js has beyond browsers: paths. And what Node.js 18 has under another name.
// Its types are those of platform.js; the ones of Node.js would have to be installed.
// @ts-nocheck

import { randomUUID, webcrypto } from "node:crypto";
import { access, constants, open, rename, rm, stat } from "node:fs/promises";
import { basename } from "node:path";

export { webcrypto, basename as nameOf };

/** Refuses a path that cannot be read. Does not open it: of a pipe, that would be its only reader. */
export async function check(path) {
  await access(path, constants.R_OK);
  if ((await stat(path)).isDirectory()) {
    throw Object.assign(new Error(`EISDIR: a folder is no file, read '${path}'`), { code: "EISDIR", path });
  }
}

/** The content of a file, read while it is sent. */
export async function* read(path) {
  const file = await open(path);
  try {
    const chunk = new Uint8Array(64 * 1024);
    for (;;) {
      const { bytesRead } = await file.read(chunk, 0, chunk.length).catch((error) => {
        // A read, unlike an open, has no path in its error.
        throw Object.assign(error, { path });
      });
      if (bytesRead === 0) return;
      yield chunk.slice(0, bytesRead);
    }
  } finally {
    await file.close();
  }
}

/** Writes the pieces to a path: all of them or no file. */
export async function write(path, pieces) {
  const part = `${path}.${randomUUID().slice(0, 8)}.part`;
  let size = 0;
  try {
    const file = await open(part, "wx");
    try {
      for await (const piece of pieces) {
        await file.writeFile(piece);
        size += piece.length;
      }
    } finally {
      await file.close();
    }
    await rename(part, path);
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  }
  return size;
}
