// Compiled by `npm run types`, never run: the declarations as an application uses them.

import { Client, InvalidWebhook, Problem, Unreachable, verifyWebhook } from "counterstep-client";
import type { Event, TaskView } from "counterstep-client";
import * as implementation from "../src/client.js";
import * as webhooks from "../src/webhooks.js";
import * as errors from "../src/errors.js";

export async function use(): Promise<void> {
  const client = new Client("http://127.0.0.1:8080", { apiKey: "k", timeoutMs: 1, retryForMs: 1, fetch });
  const { task_id } = await client.submit("t", { a: 1 }, { key: "k", labels: { a: "b" }, files: { f: ["a.txt"] } });
  const view: TaskView = await client.wait(task_id, { timeoutMs: 5 });
  if (view.status === "completed") await client.download(task_id, "zip", "a.zip");
  const link: string = (await client.link(task_id, "zip", { validFor: "1h" })).url;
  await fetch(link);
  for await (const event of client.events(task_id, { lastEventId: 3 })) show(event);
  for await (const task of client.tasks.list({ status: ["failed"], since: new Date() })) task.labels?.["a"];
  await verifyWebhook(["whsec_AA=="], new Headers(), "{}").catch((error) => error instanceof InvalidWebhook);
  await client.tasks.show("t").catch((error) => {
    if (error instanceof Problem) return error.code ?? error.retryAfter?.toFixed();
    return error instanceof Unreachable;
  });
  const queue = await client.queues.pause("bookings", { note: "the bank moves" });
  queue.paused?.note.toUpperCase();
  for await (const limit of client.limits.list()) limit.name.toUpperCase();
  await client.tasks.runAgain(task_id, { note: "once more" }, { key: "k" });
  // @ts-expect-error: a pause needs a reason
  await client.queues.pause("bookings", {});
  // @ts-expect-error: a number is no label
  await client.submit("t", {}, { labels: { a: 1 } });
}

function show(event: Event): number | null | undefined {
  return event.type === "entry" ? event.id : event.data.steps["a"]?.percent;
}

// What is declared is what there is.
export const declared: [
  new (...options: ConstructorParameters<typeof Client>) => Client,
  typeof verifyWebhook,
  new (...given: any[]) => Problem,
  new (...given: any[]) => Unreachable,
  new (...given: any[]) => InvalidWebhook,
] = [implementation.Client, webhooks.verifyWebhook, errors.Problem, errors.Unreachable, errors.InvalidWebhook];
