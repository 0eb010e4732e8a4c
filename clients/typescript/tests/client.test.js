// The client against a real API.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readdir, readFile, stat, writeFile } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { inflateRawSync } from "node:zlib";
import { Client, InvalidWebhook, Problem, Unreachable, verifyWebhook } from "../src/index.js";
import { api, cuttingProxy, dev, folder, listen, run, stub } from "./support.js";

const ZIP = "create-zip-from-files";
const ORDER = "place-order";
const SMALL = { account: "a-1", item: "milk", quantity: 2, amount_cents: 300 };
const LARGE = { ...SMALL, amount_cents: 100_000 };

let served, client;
before(async () => {
  served = await dev();
  client = new Client(served.url);
});
after(() => served?.stop());

async function all(items) {
  const found = [];
  for await (const item of items) found.push(item);
  return found;
}

const labelled = async (name, value) => (await all(client.tasks.list({ label: `${name}=${value}` }))).map((it) => it.task_id);

/** A proxy that ends with the test. */
async function proxyOf(test, cuts) {
  const proxy = await cuttingProxy(served.url, cuts);
  test.after(proxy.stop);
  return proxy;
}

async function folderOf(test) {
  const place = await folder();
  test.after(place.remove);
  return place.path;
}

/** Bytes of a stream in memory. */
function sink() {
  const pieces = [];
  return { stream: new WritableStream({ write: (piece) => void pieces.push(piece) }), bytes: () => Buffer.concat(pieces) };
}

/** Contents of an archive, from its central directory. */
function unzip(bytes) {
  const contents = [];
  let at = bytes.readUInt32LE(bytes.lastIndexOf("PK\x05\x06") + 16);
  while (bytes.readUInt32LE(at) === 0x02014b50) {
    const [method, size, local] = [bytes.readUInt16LE(at + 10), bytes.readUInt32LE(at + 20), bytes.readUInt32LE(at + 42)];
    const begin = local + 30 + bytes.readUInt16LE(local + 26) + bytes.readUInt16LE(local + 28);
    const stored = bytes.subarray(begin, begin + size);
    contents.push(method === 0 ? stored : inflateRawSync(stored));
    at += 46 + bytes.readUInt16LE(at + 28) + bytes.readUInt16LE(at + 30) + bytes.readUInt16LE(at + 32);
  }
  return contents;
}

describe("submissions", () => {
  it("a request is a task that completes", async () => {
    const { task_id } = await client.submit(ORDER, SMALL);
    const view = await client.wait(task_id, { timeoutMs: 30_000 });
    assert.equal(view.status, "completed");
    assert.equal(view.response.tracking, "t-1");
    assert.equal((await client.tasks.show(task_id)).revision, view.revision);
    const { entries } = await client.tasks.audit(task_id);
    assert.deepEqual(entries.map((entry) => entry.seq), entries.map((_, index) => index + 1));
  });

  it("files come back as the archive of the task", async (test) => {
    const place = await folderOf(test);
    const large = randomBytes(3_000_000);
    await writeFile(join(place, "large.bin"), large);
    const byContent = { name: 'ü "quoted".txt', content: "by its content" };
    const blob = { name: "blob.txt", content: new Blob(["of a blob"]) };
    const fields = { output_file_name: "all.zip" };
    const streamed = await client.submit(ZIP, fields, { files: { files: [join(place, "large.bin"), byContent, blob] } });
    const inMemory = await client.submit(ZIP, fields, { files: { files: [byContent, blob] } });
    for (const [accepted, expected] of [[streamed, [large, "by its content", "of a blob"]], [inMemory, ["by its content", "of a blob"]]]) {
      const view = await client.wait(accepted.task_id, { timeoutMs: 60_000 });
      assert.equal(view.response?.file_count, expected.length, JSON.stringify(view));
      const size = await client.download(accepted.task_id, "zip", join(place, "all.zip"));
      assert.deepEqual((await readdir(place)).sort(), ["all.zip", "large.bin"]);
      const archive = await readFile(join(place, "all.zip"));
      assert.equal(archive.length, size);
      assert.deepEqual(unzip(archive), expected.map((content) => Buffer.from(content)));
      const copy = sink();
      assert.equal(await client.download(accepted.task_id, "zip", copy.stream), size);
      assert.deepEqual(copy.bytes(), archive);
      const link = await client.link(accepted.task_id, "zip", { validFor: "30m" });
      assert.deepEqual(Buffer.from(await (await fetch(link.url)).arrayBuffer()), archive);
      assert.ok(Date.parse(link.expires_at) > Date.now());
      await client.link(accepted.task_id, "zip");
      await assert.rejects(client.link(accepted.task_id, "zip", { validFor: "8d" }), { pointer: "valid_for" });
    }
  });

  it("a large file takes little memory in both directions", async (test) => {
    const [place, size] = [await folderOf(test), 100_000_000];
    const path = join(place, "large.bin");
    for (let written = 0; written < size; written += 10_000_000) {
      await writeFile(path, randomBytes(10_000_000), { flag: "a" });
    }
    let most = 0;
    const watch = setInterval(() => (most = Math.max(most, process.memoryUsage().arrayBuffers)), 5);
    test.after(() => clearInterval(watch));
    const { task_id } = await client.submit(ZIP, {}, { files: { files: path } });
    assert.equal((await client.wait(task_id, { timeoutMs: 120_000 })).status, "completed");
    assert.ok((await client.download(task_id, "zip", join(place, "large.zip"))) > size);
    assert.ok(most < 60_000_000, `${most} bytes in buffers`);
  });

  it("a download that breaks off is an error and leaves no file", async (test) => {
    const place = await folderOf(test);
    const { task_id } = await client.submit(ZIP, {}, { files: { files: { name: "a.bin", content: randomBytes(300_000) } } });
    await client.wait(task_id, { timeoutMs: 30_000 });
    const through = new Client((await proxyOf(test, [100_000, 100_000])).url);
    await assert.rejects(through.download(task_id, "zip", join(place, "a.zip")), Unreachable);
    assert.deepEqual(await readdir(place), []);
    let aborted;
    const stream = new WritableStream({ abort: (reason) => void (aborted = reason) });
    await assert.rejects(through.download(task_id, "zip", stream), Unreachable);
    assert.ok(aborted instanceof Unreachable);
  });

  it("a key that is repeated makes one task", async () => {
    const first = await client.submit(ORDER, SMALL, { key: "order-1" });
    const again = await client.submit(ORDER, SMALL, { key: "order-1" });
    assert.deepEqual([first.replayed, again.replayed], [false, true]);
    assert.equal(first.task_id, again.task_id);
    await assert.rejects(client.submit(ORDER, LARGE, { key: "order-1" }), { status: 422, code: "idempotency-mismatch" });
  });

  it("a submission with a key is repeated after a cut and makes one task", async (test) => {
    const proxy = await proxyOf(test, [1, 40]);
    const accepted = await new Client(proxy.url).submit(ORDER, SMALL, { key: "cut", labels: { test: "cut" } });
    assert.ok(accepted.replayed);
    assert.equal(proxy.cut, 2);
    assert.deepEqual(await labelled("test", "cut"), [accepted.task_id]);
  });

  it("a form with a path is sent again whole", async (test) => {
    const path = join(await folderOf(test), "a.txt");
    await writeFile(path, "again");
    const proxy = await proxyOf(test, [1]);
    const accepted = await new Client(proxy.url).submit(ZIP, {}, { key: "form", files: { files: path } });
    assert.deepEqual([proxy.cut, accepted.replayed], [1, true]);
    assert.equal((await client.wait(accepted.task_id)).status, "completed");
  });

  it("a submission without a key is sent once", async (test) => {
    const proxy = await proxyOf(test, [1]);
    await assert.rejects(new Client(proxy.url).submit(ORDER, SMALL, { labels: { test: "once" } }), Unreachable);
    assert.equal(proxy.cut, 1);
    assert.equal((await labelled("test", "once")).length, 1);
  });

  it("a key whose first request is still arriving is waited for", async (test) => {
    const stored = async () => (await readdir(join(served.data, "objects"), { recursive: true })).length;
    const head = '--b\r\nContent-Disposition: form-data; name="files"; filename="a.txt"\r\n\r\nslow';
    const end = "\r\n--b--\r\n";
    const earlier = await stored();
    const slow = connect(Number(new URL(served.url).port), "127.0.0.1").setEncoding("utf8");
    test.after(() => slow.destroy());
    slow.write(
      `POST /api/tasks/${ZIP} HTTP/1.1\r\nHost: 127.0.0.1\r\nIdempotency-Key: slow\r\nConnection: close\r\n` +
        `Content-Type: multipart/form-data; boundary=b\r\nContent-Length: ${head.length + end.length}\r\n\r\n${head}`,
    );
    // It holds the key once its file is being stored.
    const limit = Date.now() + 30_000;
    while ((await stored()) === earlier) assert.ok(Date.now() < limit, "the first request has not arrived");
    const options = { key: "slow", files: { files: { name: "a.txt", content: "slow" } } };
    const impatient = new Client(served.url, { retryForMs: 0 });
    await assert.rejects(impatient.submit(ZIP, {}, options), { status: 409, code: "in-progress" });
    setTimeout(() => slow.write(end), 1_500);
    const accepted = await client.submit(ZIP, {}, options);
    assert.ok(accepted.replayed);
    assert.ok((await all(slow)).join("").includes(accepted.task_id));
  });

  it("Retry-After is honoured where there is a key", async (test) => {
    const came = [];
    const { url, stop } = await stub((request, response) => {
      came.push(performance.now());
      const status = [429, 503, 202][came.length - 1];
      const body = status === 202 ? { task_id: "t", status: "dispatched" } : { code: "unavailable", status, detail: "later" };
      request.resume().on("end", () => response.writeHead(status, { "retry-after": "1" }).end(JSON.stringify(body)));
    });
    test.after(stop);
    const patient = new Client(url);
    assert.equal((await patient.submit(ORDER, SMALL, { key: "k" })).task_id, "t");
    assert.ok(came[1] - came[0] > 990 && came[2] - came[1] > 990, `${came}`);
    came.length = 0;
    await assert.rejects(patient.submit(ORDER, SMALL), { status: 429, retryAfter: 1 });
    assert.equal(came.length, 1);
    came.length = 0;
    // A pause beyond the limit is not begun.
    await assert.rejects(new Client(url, { retryForMs: 500 }).submit(ORDER, SMALL, { key: "k" }), Problem);
    assert.equal(came.length, 1);
  });
});

describe("files", () => {
  /** A server that counts its requests, and answers none. */
  async function silent(test) {
    const came = [];
    const { url, stop } = await stub((request) => void (came.push(request.url), request.on("error", () => {}).resume()));
    test.after(stop);
    return { came, client: new Client(url) };
  }

  async function refused(client, files) {
    return client.submit(ZIP, {}, { key: "k", files: { files } }).then(assert.fail, (error) => error);
  }

  it("a file that cannot be read is an error of its own and nothing is sent", async (test) => {
    const place = await folderOf(test);
    const locked = join(place, "locked");
    await writeFile(locked, "x", { mode: 0 });
    const cases = [[join(place, "missing"), "ENOENT"], [place, "EISDIR"]];
    // Root reads it all the same.
    if (process.getuid?.() !== 0) cases.push([locked, "EACCES"]);
    const { came, client } = await silent(test);
    for (const [path, code] of cases) {
      // Behind a file that can be read.
      const error = await refused(client, [{ name: "a.txt", content: "a" }, path]);
      assert.deepEqual([error.code, error.path], [code, path]);
    }
    assert.deepEqual(came, []);
  });

  it("a file that fails while it is sent is an error of its own and not sent again", async (test) => {
    const { came, client } = await silent(test);
    // Linux opens this, and refuses to read its first byte.
    const error = await refused(client, "/proc/self/mem");
    assert.deepEqual([error.code, error.path], ["EIO", "/proc/self/mem"]);
    assert.ok(came.length <= 1, `${came}`);
  });
});

describe("pauses", () => {
  it("a wait does not begin a pause beyond its limit", async (test) => {
    let came = 0;
    const { url, stop } = await stub((_, response) => {
      came += 1;
      response.writeHead(503, { "retry-after": "3600" }).end("{}");
    });
    test.after(stop);
    const client = new Client(url, { retryForMs: 30_000 });
    await assert.rejects(client.wait("t"), { status: 503 });
    assert.equal(came, 1);
    await assert.rejects(client.wait("t", { timeoutMs: 500 }), { name: "TimeoutError" });
  });
});

describe("following", () => {
  it("events that are cut come once and in order", async (test) => {
    const { task_id } = await client.submit(ORDER, LARGE);
    // In the head, within the first event, behind some.
    const proxy = await proxyOf(test, [50, 500, 900, 1500, 1100, 1300]);
    const seen = [];
    for await (const event of new Client(proxy.url).events(task_id)) {
      if (event.type !== "entry") continue;
      seen.push(event);
      if (event.data.event === "waits" && event.data.status === "waiting") {
        await client.tasks.signal(task_id, "approval", { approved: true, by: "kim" });
      }
    }
    assert.equal(proxy.cut, 6);
    const { entries } = await client.tasks.audit(task_id);
    assert.deepEqual(seen.map((event) => event.id), entries.map((entry) => entry.seq));
    assert.deepEqual(seen.map(({ data: { status, ...entry } }) => entry), entries);
    const last = seen.at(-1);
    assert.equal(last.data.status, "completed");
    const rest = await all(client.events(task_id, { lastEventId: last.id - 2 }));
    assert.deepEqual(rest.map((event) => event.id), [last.id - 1, last.id]);
    assert.deepEqual(await all(client.events(task_id, { lastEventId: last.id })), []);
  });

  it("a stream that the API has no room for is waited for", async (test) => {
    const small = await dev("--streams-per-caller", "1");
    test.after(small.stop);
    const client = new Client(small.url);
    const { task_id } = await client.submit(ORDER, LARGE);
    const first = client.events(task_id);
    await first.next();
    const impatient = new Client(small.url, { retryForMs: 0 });
    await assert.rejects(impatient.events(task_id).next(), (error) => error.code === "too-many-requests" && error.retryAfter > 0);
    setTimeout(() => client.tasks.cancel(task_id), 500);
    const [seen] = await Promise.all([all(client.events(task_id)), all(first)]);
    const ids = seen.filter((event) => event.type === "entry").map((event) => event.id);
    assert.deepEqual(ids, ids.map((_, index) => index + 1));
  });

  it("a signal of the caller ends a stream and a wait", async () => {
    const { task_id } = await client.submit(ORDER, LARGE);
    const stop = new AbortController();
    const reason = new Error("enough");
    setTimeout(() => stop.abort(reason), 300);
    const both = [all(client.events(task_id, { signal: stop.signal })), client.wait(task_id, { signal: stop.signal })];
    for (const one of await Promise.allSettled(both)) assert.equal(one.reason, reason);
    await client.tasks.cancel(task_id);
    await client.wait(task_id);
  });

  it("a wait ends with its time, and a cancel is undone", async () => {
    const { task_id } = await client.submit(ORDER, LARGE);
    for await (const event of client.events(task_id)) if (event.data.status === "waiting") break;
    await assert.rejects(client.wait(task_id, { timeoutMs: 300 }), { name: "TimeoutError" });
    const answer = await client.tasks.cancel(task_id);
    assert.equal(answer.outcome, "undoing");
    assert.ok(answer.will_undo.includes("charge"));
    assert.equal((await client.wait(task_id, { timeoutMs: 30_000 })).status, "cancelled");
  });

  it("a wait goes on after a cut", async (test) => {
    const { task_id } = await client.submit(ORDER, SMALL);
    const proxy = await proxyOf(test, [1, 60]);
    assert.equal((await new Client(proxy.url).wait(task_id, { timeoutMs: 30_000 })).status, "completed");
    assert.equal(proxy.cut, 2);
  });

  it("a list goes on over its pages with all filters", async () => {
    const who = 'Smith, "Bö" \\ & = +';
    const since = new Date(Date.now() - 5_000);
    const made = [];
    for (let n = 0; n < 5; n += 1) made.push((await client.submit(ORDER, SMALL, { labels: { who, n: `${n}` } })).task_id);
    for (const task of made) await client.wait(task, { timeoutMs: 30_000 });
    const fits = { type: ORDER, label: [`who=${who}`], since, limit: 2 };
    const listed = await all(client.tasks.list({ ...fits, status: ["completed", "failed"] }));
    assert.deepEqual(listed.map((task) => task.task_id), made.reverse());
    assert.deepEqual(listed[0].labels, { who, n: "4" });
    assert.deepEqual(await all(client.tasks.list({ ...fits, status: "cancelled" })), []);
  });
});

describe("operations", () => {
  it("they are called by the words of the commands", async () => {
    const { task_id } = await client.submit(ORDER, LARGE);
    for await (const event of client.events(task_id)) if (event.data.status === "waiting") break;
    assert.ok((await client.tasks.why(task_id)).because.length > 0);
    assert.ok((await client.tasks.plan(task_id)).stages.length > 0);
    assert.equal((await client.tasks.chain(task_id)).task_id, task_id);
    const types = (await all(client.types.list())).map((it) => it.name);
    assert.ok(types.includes("PlaceOrder"), `${types}`);
    assert.deepEqual(await all(client.deadLetters.list({ limit: 1 })), []);
    assert.equal((await client.caller.show()).tenant, "default");
    await client.tasks.cancel(task_id);
    assert.equal((await client.wait(task_id)).status, "cancelled");
    const again = await client.tasks.runAgain(task_id, { note: "once more" }, { key: "again" });
    assert.deepEqual(await client.tasks.runAgain(task_id, { note: "once more" }, { key: "again" }), again);
    await client.tasks.cancel(again.task_id);
  });

  it("a change has its note, and a list is read page by page", async () => {
    const [{ name }] = await all(client.queues.list());
    const paused = await client.queues.pause(name, { note: "the bank moves", actor: "kim" });
    assert.deepEqual([paused.paused?.note, paused.name], ["the bank moves (by kim)", name]);
    assert.equal((await client.queues.resume(name, { note: "it has moved" })).paused, undefined);
    const made = [];
    for (const n of [1, 2, 3]) {
      const schedule = { type: ORDER, request: SMALL, run_at: `203${n}-01-01T00:00:00Z` };
      made.push((await client.schedules.set(`s-${n}`, schedule)).name);
    }
    assert.deepEqual((await all(client.schedules.list({ limit: 2 }))).map((it) => it.name), made);
    assert.equal((await client.schedules.pause("s-1")).paused, true);
    for (const name of made) assert.equal(await client.schedules.delete(name), undefined);
    assert.deepEqual(await all(client.schedules.list()), []);
  });

  it("a refusal is a problem with its code", async () => {
    await assert.rejects(client.queues.pause("none", { note: "x" }), { name: "Problem", status: 404, code: "no-such-queue" });
    await assert.rejects(client.queues.pause("none", {}), { status: 422, code: "invalid-request" });
    await assert.rejects(client.limits.reset("none", { note: "x" }), { code: "no-such-limit" });
  });
});

describe("refusals", () => {
  it("a refusal is a problem with code and pointer", async () => {
    await assert.rejects(client.submit(ORDER, { ...SMALL, nope: 1 }), (problem) => {
      assert.ok(problem instanceof Problem);
      assert.deepEqual([problem.status, problem.code, problem.pointer], [422, "invalid-request", "nope"]);
      assert.match(problem.detail, /no field of this name/);
      assert.equal(problem.retryAfter, undefined);
      assert.match(problem.message, /^422 invalid-request/);
      return true;
    });
  });

  it("ids and names are one segment each", async () => {
    const { task_id } = await client.submit(ORDER, SMALL);
    await assert.rejects(client.tasks.show("../workers?x"), { status: 400 });
    const { stream } = sink();
    for (const name of ["..", "a/../../x", ""]) await assert.rejects(client.download(task_id, name, stream), TypeError);
    await assert.rejects(client.download(task_id, "files/0", stream), (problem) =>
      ["not-completed", "no-such-result"].includes(problem.code),
    );
  });

  it("an answer that is no document is a problem without a code", async (test) => {
    const { url, stop } = await stub((_, response) => response.writeHead(502).end("<h1>Bad gateway</h1>"));
    test.after(stop);
    await assert.rejects(new Client(url).tasks.show("t"), { name: "Problem", status: 502, code: undefined });
  });

  it("no answer is an error of its own", async (test) => {
    const closed = createServer();
    const url = await listen(closed);
    await new Promise((resolve) => closed.close(resolve));
    await assert.rejects(new Client(url).tasks.show("t"), { name: "Unreachable", message: /ECONNREFUSED/ });
    const sockets = [];
    const silent = createServer((socket) => void sockets.push(socket));
    test.after(() => (sockets.forEach((socket) => socket.destroy()), silent.close()));
    const impatient = new Client(await listen(silent), { timeoutMs: 200 });
    await assert.rejects(impatient.tasks.show("t"), { name: "Unreachable", message: /200 ms/ });
  });

  it("addresses, keys and headers that cannot be sent are refused", async () => {
    for (const address of ["127.0.0.1:8080", "ftp://a", "http://", "http://a/?b", "http://a:b@c"]) {
      assert.throws(() => new Client(address), TypeError, address);
    }
    for (const apiKey of ["", "a b", "a\r\nX: y", "ü"]) {
      assert.throws(() => new Client("http://a", { apiKey }), TypeError, apiKey);
    }
    await assert.rejects(client.submit(ORDER, SMALL, { key: "a\r\nX: y" }), TypeError);
  });
});

describe("keys", () => {
  it("a key of the command line lets in, and others do not", async (test) => {
    const place = await folder();
    const data = join(place.path, "data");
    const key = (await run("keys", "create", "--subject", "shop", "--role", "submit", "--data-dir", data)).trim();
    const authenticated = await api(data, "--auth", "keys");
    test.after(async () => {
      await authenticated.stop();
      await place.remove();
    });
    for (const options of [{}, { apiKey: "cs_wrong" }]) {
      const refused = new Client(authenticated.url, options).submit(ORDER, SMALL);
      await assert.rejects(refused, { status: 401, code: "unauthenticated" });
    }
    const shop = new Client(authenticated.url, { apiKey: key });
    const { task_id } = await shop.submit(ORDER, SMALL);
    assert.equal((await shop.tasks.audit(task_id)).entries[0].actor, "client:shop");
  });
});

it("a webhook of a real API is verified", async (test) => {
  const received = [];
  // The first attempt fails, and the second has the same id.
  const receiver = await stub(async (request, response) => {
    const pieces = [];
    for await (const piece of request) pieces.push(piece);
    received.push([request.headers, Buffer.concat(pieces)]);
    response.writeHead(received.length === 1 ? 503 : 204).end();
  });
  test.after(receiver.stop);
  const own = await dev("--webhook-allow", "127.0.0.0/8");
  test.after(own.stop);
  const client = new Client(own.url);
  const { task_id } = await client.submit(ORDER, SMALL, { webhook: `${receiver.url}/hook` });
  assert.equal((await client.wait(task_id, { timeoutMs: 30_000 })).status, "completed");
  const end = Date.now() + 60_000;
  while (received.length < 2 && Date.now() < end) await new Promise((resolve) => setTimeout(resolve, 50));
  const secrets = (await client.webhookSecrets.show()).secrets;
  const ids = new Set();
  for (const [headers, body] of received) {
    const event = await verifyWebhook(secrets, headers, body);
    assert.deepEqual([event.type, event.data.task_id], ["task.completed", task_id]);
    await assert.rejects(verifyWebhook(secrets, headers, `${body} `), InvalidWebhook);
    ids.add(headers["webhook-id"]);
  }
  assert.deepEqual([received.length, ids.size], [2, 1]);
  const refused = client.submit(ORDER, SMALL, { webhook: "https://169.254.169.254/" });
  await assert.rejects(refused, (error) => error instanceof Problem && error.code === "invalid-webhook");
});
