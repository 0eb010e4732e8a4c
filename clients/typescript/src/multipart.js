// A form with files. Must not hold the content of a path.

import { platform, webcrypto } from "./platform.js";

/**
 * The fields of the request, then the files.
 *
 * @param {unknown} request
 * @param {Record<string, import("./index.js").FileInput | import("./index.js").FileInput[]>} byField
 */
export async function formOf(request, byField) {
  if (typeof request !== "object" || request === null || Array.isArray(request)) {
    throw new TypeError("a request with files is an object of fields");
  }
  const random = (await webcrypto()).getRandomValues(new Uint32Array(4));
  const boundary = `counterstep-${Array.from(random, (it) => it.toString(16)).join("-")}`;
  /** @type {(string | Blob | Uint8Array | { path: string })[]} */
  const parts = [];
  /**
   * @param {string} field
   * @param {string} rest
   */
  const head = (field, rest) =>
    parts.push(`--${boundary}\r\nContent-Disposition: form-data; name="${quoted(field)}"${rest}\r\n\r\n`);
  for (const [field, value] of Object.entries(request)) {
    if (value === undefined) continue;
    head(field, "\r\nContent-Type: application/json");
    parts.push(JSON.stringify(value), "\r\n");
  }
  /** @type {import("./platform.js").Platform | undefined} */
  let paths;
  for (const [field, given] of Object.entries(byField)) {
    for (const file of Array.isArray(given) ? given : [given]) {
      let name, content;
      if (typeof file === "string") {
        paths ??= await platform();
        [name, content] = [paths.nameOf(file), { path: file }];
      } else {
        [name, content] = [file.name, "content" in file ? file.content : file];
      }
      head(field, `; filename="${quoted(name)}"\r\nContent-Type: application/octet-stream`);
      parts.push(content, "\r\n");
    }
  }
  parts.push(`--${boundary}--\r\n`);
  return {
    hasPaths: paths !== undefined,
    contentType: `multipart/form-data; boundary=${boundary}`,
    /** Refuses a path that cannot be read, before anything is sent. */
    async check() {
      for (const part of parts) {
        if (paths && typeof part === "object" && "path" in part) await paths.check(part.path);
      }
    },
    /**
     * @param {() => void} moved Called for each piece that is sent.
     * @returns {import("./http.js").Form}
     */
    body(moved) {
      return paths
        ? stream(pieces(parts, paths), moved)
        : { body: new Blob(/** @type {BlobPart[]} */ (parts)), isStream: false };
    },
  };
}

/** @param {string} name */
function quoted(name) {
  // The form of browsers.
  return name.replace(/\r/g, "%0D").replace(/\n/g, "%0A").replace(/"/g, "%22");
}

/**
 * @param {(string | Blob | Uint8Array | { path: string })[]} parts
 * @param {import("./platform.js").Platform} paths
 */
async function* pieces(parts, paths) {
  for (const part of parts) {
    if (typeof part === "string") yield new TextEncoder().encode(part);
    else if (part instanceof Uint8Array) yield part;
    else if (part instanceof Blob) yield* part.stream();
    else yield* paths.read(part.path);
  }
}

/**
 * @param {AsyncGenerator<Uint8Array, void, undefined>} from
 * @param {() => void} moved
 */
function stream(from, moved) {
  /** @type {import("./http.js").Form} */
  const form = {
    body: new ReadableStream({
      async pull(controller) {
        const { done, value } = await from.next().catch((error) => {
          form.failure = error;
          throw error;
        });
        moved();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      async cancel() {
        await from.return();
      },
    }),
    isStream: true,
  };
  return form;
}
