// Client of the HTTP interface of Counterstep. The declarations are in index.d.ts.

export { Client } from "./client.js";
export { InvalidWebhook, Problem, Unreachable } from "./errors.js";
export { verifyWebhook } from "./webhooks.js";
