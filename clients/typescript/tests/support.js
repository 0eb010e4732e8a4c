// The program under test, the services that its orders call, and a proxy that cuts connections.

import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer as createHttpServer } from "node:http";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

function start(args, cwd) {
  const program = process.env.COUNTERSTEP_PROGRAM;
  if (!program) throw new Error("set COUNTERSTEP_PROGRAM to the path of the program `counterstep`");
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("COUNTERSTEP_")));
  return spawn(program, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
}

export async function folder() {
  const path = await mkdtemp(join(tmpdir(), "counterstep-client-"));
  return { path, remove: () => rm(path, { recursive: true, force: true }) };
}

/** A command that ends, and its output. */
export async function run(...args) {
  const child = start(args);
  const said = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"]) child[name].on("data", (data) => (said[name] += data));
  const code = await new Promise((resolve, reject) => child.on("error", reject).on("close", resolve));
  if (code !== 0) throw new Error(`${args.join(" ")} ended with ${code}: ${said.stderr}`);
  return said.stdout;
}

/** A process that serves the API. */
async function serve(args, data, mark) {
  const child = start([...args, "--listen", "127.0.0.1:0", "--data-dir", data]);
  let said = "";
  const url = await new Promise((resolve, reject) => {
    const read = (piece) => {
      said += piece;
      const found = mark.exec(said);
      if (found) resolve(`http://${found[1]}`);
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    child.on("error", reject).on("close", () => reject(new Error(`counterstep ${args[0]} did not start: ${said}`)));
  });
  const stop = () =>
    new Promise((resolve) => {
      if (child.exitCode !== null || child.signalCode !== null) return resolve();
      const late = setTimeout(() => child.kill("SIGKILL"), 30_000);
      child.once("close", () => resolve(clearTimeout(late)));
      child.kill("SIGTERM");
    });
  return { url, stop };
}

export const api = (data, ...flags) => serve(["api", ...flags], data, /address=(127\.0\.0\.1:\d+)\s/);

/** `counterstep dev` in a temporary folder, and the services that `place-order` calls. */
export async function dev(...flags) {
  const place = await folder();
  const services = await stub(orderService);
  const names = ["bank", "inventory", "shipping"];
  const settings = join(place.path, "counterstep.toml");
  await writeFile(settings, names.map((name) => `[services.${name}]\nurl = "${services.url}"\n`).join(""));
  const data = join(place.path, "data");
  const args = ["dev", "--config", settings, "--drain", "500ms", ...flags];
  const served = await serve(args, data, /submit to http:\/\/(127\.0\.0\.1:\d+)\//);
  const stop = async () => {
    await served.stop();
    await services.stop();
    await place.remove();
  };
  return { url: served.url, data, stop };
}

/** The shop, the bank and the carrier. */
function orderService(request, response) {
  const answers = {
    "/reservations": { reservation_id: "r-1" },
    "/charges": { charge_id: "c-1", amount_cents: 100_000 },
    "/shipments": { tracking: "t-1" },
  };
  const body = request.method === "POST" ? answers[request.url] : undefined;
  request.resume().on("end", () => {
    response.writeHead(body ? 200 : 404, { "content-type": "application/json" }).end(JSON.stringify(body ?? {}));
  });
}

/** An HTTP server that answers each request by a function. */
export async function stub(answer) {
  const server = createHttpServer(answer);
  const url = await listen(server);
  const stop = () =>
    new Promise((resolve) => {
      server.close(resolve);
      server.closeAllConnections?.();
    });
  return { url, stop };
}

export function listen(server) {
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => resolve(`http://127.0.0.1:${server.address().port}`));
  });
}

/** A TCP proxy that resets the first connections, each after a number of bytes of the server's answer. */
export async function cuttingProxy(url, cuts) {
  const left = [...cuts];
  const open = new Set();
  const proxy = { url: "", cut: 0, stop: async () => {} };
  const server = createServer((client) => {
    const limit = left.shift() ?? Infinity;
    const upstream = connect(Number(new URL(url).port), "127.0.0.1");
    let sent = 0;
    for (const [socket, other] of [[client, upstream], [upstream, client]]) {
      open.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        open.delete(socket);
        other.destroy();
      });
    }
    client.on("data", (data) => upstream.write(data));
    upstream.on("data", (data) => {
      const piece = data.subarray(0, limit - sent);
      sent += piece.length;
      if (sent < limit) return client.write(piece);
      proxy.cut += 1;
      upstream.removeAllListeners("data");
      client.write(piece, () => client.resetAndDestroy?.() ?? client.destroy());
    });
  });
  proxy.url = await listen(server);
  proxy.stop = () =>
    new Promise((resolve) => {
      server.close(resolve);
      for (const socket of open) socket.destroy();
    });
  return proxy;
}
