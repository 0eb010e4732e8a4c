// Declarations of what index.js exports. Bodies have the keys of the JSON; times in them are texts of RFC 3339 in UTC.
// A later version of the API may add keys, and values of `status`, `event` and `code`.

import type { AuditEvent, Operations, ProblemCode, ProgressEvent, ResultLink, TaskId, TaskStatus, TaskView } from "./operations.js";

export type * from "./operations.js";

export interface ClientOptions {
  /** Sent as `Authorization: Bearer`. */
  apiKey?: string;
  /** For an answer; 10,000 unless given. */
  timeoutMs?: number;
  /**
   * For how long a submission with a key is repeated, and how long `wait` and `events` tolerate an API that does not
   * answer; 60,000 unless given.
   */
  retryForMs?: number;
  /** In place of the global `fetch`. */
  fetch?: typeof fetch;
}

/** A path (Node.js only), a `File`, or a name and the content. */
export type FileInput = string | File | { name: string; content: Blob | Uint8Array | string };

export interface SubmitOptions {
  /** `Idempotency-Key`: the request makes one task however often it is sent, and is repeated where that helps. */
  key?: string;
  labels?: Record<string, string>;
  /** The address that gets a webhook each time that the task comes to rest. */
  webhook?: string;
  /** One file or several, by the field of the request. */
  files?: Record<string, FileInput | FileInput[]>;
  signal?: AbortSignal;
}

/** A client of one API. Its operations are grouped as the commands of the program are. */
export interface Client extends Operations {}
export class Client {
  constructor(baseUrl: string, options?: ClientOptions);
  /** Submits a task; `type` is the route, such as `create-zip-from-files`. Without a `key` it is sent once. */
  submit(type: string, request: unknown, options?: SubmitOptions): Promise<Accepted>;
  /**
   * The task once it is at rest: it has ended, or is parked. Rejects with a `DOMException` of the name `TimeoutError`
   * after `timeoutMs`; without it there is no limit.
   */
  wait(id: string, options?: { timeoutMs?: number; signal?: AbortSignal }): Promise<TaskView>;
  /**
   * What happens to the task: each entry of its audit after `lastEventId` once and in order, and progress. Comes again
   * after a cut, and ends when the task has ended.
   */
  events(id: string, options?: { lastEventId?: number; signal?: AbortSignal }): AsyncGenerator<Event, void, undefined>;
  /**
   * A link to a stored file of the response: its holder needs no key until it expires. `validFor` is a text such as `30m`,
   * at most `7d`; one hour unless given.
   */
  link(id: string, name: string, options?: { validFor?: string; signal?: AbortSignal }): Promise<ResultLink>;
  /**
   * Writes a stored file of the response to a path (Node.js only) or a stream, which is closed then, and resolves to its
   * size. A path gets the whole file or none; a stream is aborted where the download fails.
   */
  download(
    id: string,
    name: string,
    to: string | WritableStream<Uint8Array>,
    options?: { signal?: AbortSignal },
  ): Promise<number>;
}

/** An answer that is not a success: a problem document of the API (RFC 9457), or an answer of a proxy. */
export class Problem extends Error {
  /** Status of the HTTP answer. */
  readonly status: number;
  /** The stable code, such as `no-such-task`; missing where the answer is no document of the API. */
  readonly code: ProblemCode | undefined;
  /** What was wrong, what was expected, what to do. */
  readonly detail: string;
  /** The field, header or parameter that is wrong. */
  readonly pointer: string | undefined;
  /** Seconds until a repetition makes sense, where the answer has them. */
  readonly retryAfter: number | undefined;
  /** The whole document. */
  readonly document: Record<string, unknown>;
}

/** No answer, or not all of it. Whether the request had an effect is unknown. */
export class Unreachable extends Error {}

/** A webhook whose signature, time or headers are not valid. */
export class InvalidWebhook extends Error {}

export interface WebhookOptions {
  /** Seconds by which the time of a webhook may differ from the clock; 300 unless given. */
  toleranceSeconds?: number;
  /** Seconds since 1970; the clock of the machine unless given. */
  now?: number;
}

/**
 * The JSON of a webhook (https://www.standardwebhooks.com), once one of the secrets (`whsec_…`) has been found to have
 * signed it. `body` is the body as it arrived, before any parsing. Several secrets are for the time of a rotation.
 */
export function verifyWebhook(
  secrets: string | string[],
  headers: Headers | Record<string, string | string[] | undefined>,
  body: string | Uint8Array,
  options?: WebhookOptions,
): Promise<any>;

/** Answer to a submission. */
export interface Accepted {
  task_id: TaskId;
  /** The state of the task when it was accepted. */
  status: TaskStatus;
  /** Whether this repeats the answer to an earlier request with the same key. */
  replayed: boolean;
}

/** An entry of the audit, with the state of the task after it; or the progress of running steps, by their names. */
export type Event = { type: "entry"; id: number; data: AuditEvent } | { type: "progress"; data: ProgressEvent };
