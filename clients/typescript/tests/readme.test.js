// The examples of the README, in one module beside a `counterstep dev`.

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { pathToFileURL } from "node:url";
import { dev, folder } from "./support.js";

it("the examples of the README run", async (test) => {
  const served = await dev();
  test.after(served.stop);
  const place = await folder();
  const usual = process.cwd();
  test.after(async () => {
    process.chdir(usual);
    await place.remove();
  });
  const readme = await readFile(new URL("../README.md", import.meta.url), "utf8");
  const blocks = [...readme.matchAll(/^```js\n(.*?)^```$/gms)].map((block) => block[1]);
  assert.equal(blocks.length, 5);
  const code = blocks
    .join("")
    .replaceAll("http://127.0.0.1:8080", served.url)
    .replaceAll('"counterstep-client"', `"${new URL("../src/index.js", import.meta.url)}"`);
  await writeFile(join(place.path, "a.txt"), "the content of a");
  await writeFile(join(place.path, "readme.mjs"), code);
  process.chdir(place.path);
  const lines = [];
  test.mock.method(console, "log", (...said) => lines.push(said.map((it) => it?.type ?? it).join(" ")));
  const { receive } = await import(pathToFileURL(join(place.path, "readme.mjs")).href);
  assert.ok((await readdir(".")).includes("notes.zip"));
  const [sentAt, body] = [`${Math.floor(Date.now() / 1000)}`, '{"type":"task.completed"}'];
  const key = Buffer.from("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "base64");
  const signature = `v1,${createHmac("sha256", key).update(`m.${sentAt}.${body}`).digest("base64")}`;
  const headers = { "webhook-id": "m", "webhook-timestamp": sentAt, "webhook-signature": signature };
  assert.equal(await receive(headers, body), 204);
  assert.equal(await receive(headers, `${body} `), 401);
  for (const part of ["1 submitted submitted", "completed", "422 invalid-request", "task.completed"]) {
    assert.ok(lines.some((line) => line.includes(part)), `${part} is not in\n${lines.join("\n")}`);
  }
});
