// Declarations of what index.js exports. Bodies have the keys of the JSON; times in them are texts of RFC 3339 in UTC.
// A later version of the API may add keys, and values of `status`, `event` and `code`.

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

export interface ListOptions {
  /** A route or a declared name. */
  type?: string;
  status?: TaskStatus | TaskStatus[];
  labels?: Record<string, string>;
  since?: string | Date;
  until?: string | Date;
  failureClass?: string;
  failureText?: string;
  /** 1 to 200. */
  pageSize?: number;
  signal?: AbortSignal;
}

/** A client of one API. */
export class Client {
  constructor(baseUrl: string, options?: ClientOptions);
  /** Submits a task; `type` is the route, such as `create-zip-from-files`. Without a `key` it is sent once. */
  submit(type: string, request: unknown, options?: SubmitOptions): Promise<Accepted>;
  /** What signs the webhooks of the caller's tenant, for `verifyWebhook`; needs the role `operate`. */
  webhookSecrets(): Promise<string[]>;
  /** The task as it is now. */
  task(id: string): Promise<TaskView>;
  /**
   * The task once it is at rest: it has ended, or is parked. Rejects with a `DOMException` of the name `TimeoutError`
   * after `timeoutMs`; without it there is no limit.
   */
  wait(id: string, options?: { timeoutMs?: number; signal?: AbortSignal }): Promise<TaskView>;
  /** Cancels the task: what it has done is undone. */
  cancel(id: string): Promise<CancelAnswer>;
  /** Sends the signal that the step of this name waits for, or will. */
  signal(id: string, name: string, body: unknown): Promise<SignalAnswer>;
  /** Everything that happened to the task. */
  audit(id: string): Promise<AuditTrail>;
  /** The tasks that fit, the newest first. Pages are read as the iterator needs them. */
  list(options?: ListOptions): AsyncGenerator<TaskSummary, void, undefined>;
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
  readonly code: string | undefined;
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

/** The states; a later version may add some. */
export type TaskStatus =
  | "submitted"
  | "dispatched"
  | "running"
  | "waiting"
  | "completed"
  | "compensating"
  | "compensation_failed"
  | "failed"
  | "cancelled"
  | "dead_lettered"
  | "resolved"
  | (string & {});

/** Answer to a submission. */
export interface Accepted {
  task_id: string;
  /** The state of the task when it was accepted. */
  status: TaskStatus;
  /** Whether this repeats the answer to an earlier request with the same key. */
  replayed: boolean;
}

export interface TaskView {
  task_id: string;
  task_type: string;
  version: number;
  status: TaskStatus;
  labels?: Record<string, string>;
  waiting_for?: string;
  due_at?: string;
  cancel_requested: boolean;
  /** Whether it ended with effects that were not undone. */
  residue: boolean;
  revision: number;
  created_at: string;
  updated_at: string;
  finished_at?: string;
  recovery_attempts: number;
  progress: { done: number; total: number };
  steps: StepView[];
  parent?: { task_id: string; step: number; place: number };
  children?: { step: string; by_status: Record<string, number> }[];
  /** The trace of the request that submitted it: 32 hexadecimal digits. */
  trace_id?: string;
  /** How a person has settled it; with `redriven` also the task that has done it. */
  settled?: { as: string; task?: string };
  /** The task that it runs again, and the step from which it does. */
  predecessor?: { task_id: string; from?: string };
  /** The tasks that run it again, the newest first. */
  successors?: string[];
  /** Only where the task has completed. */
  response?: any;
  /** Only where it has not. */
  failure?: FailureView;
}

export interface StepView {
  no: number;
  name: string;
  status: string;
  attempts: number;
  undo_attempts: number;
  error?: string;
  progress?: StepProgress;
}

/** How far a running step is: a hint. */
export interface StepProgress {
  done: number;
  /** 0: unknown. */
  total: number;
  percent?: number;
  /** What it is at: one line. */
  message?: string;
  at: string;
}

export interface FailureView {
  step?: string;
  class: string;
  message: string;
  /** What blocks a parked task now, where that is another failure. */
  blocked_by?: BlockView;
}

/** The failure of an undo, by which a task is parked. */
export interface BlockView {
  step?: string;
  class: string;
  message: string;
}

export interface AuditTrail {
  task_id: string;
  entries: AuditEntry[];
  attempts: AttemptView[];
}

export interface AuditEntry {
  /** From 1, without gaps. */
  seq: number;
  change_id: string;
  at: string;
  event: string;
  from?: TaskStatus;
  to: TaskStatus;
  step?: string;
  step_from?: string;
  step_to?: string;
  attempt?: number;
  epoch: number;
  actor: string;
  details?: any;
}

export interface AttemptView {
  step: string;
  direction: string;
  attempt: number;
  epoch: number;
  outcome?: string;
  error?: string;
  started_at: string;
  ended_at?: string;
  /** The process that ran it, as `worker:ID`. */
  worker?: string;
}

/** An entry of the audit, with the state of the task after it; or the progress of running steps, by their names. */
export type Event =
  | { type: "entry"; id: number; data: AuditEntry & { status: TaskStatus } }
  | { type: "progress"; data: { steps: Record<string, StepProgress> } };

export interface CancelAnswer {
  task_id: string;
  status: TaskStatus;
  outcome: "nothing-had-run" | "undoing" | "stopping" | "already-cancelled" | (string & {});
  will_undo: string[];
}

/** A link to a stored file of a response. */
export interface ResultLink {
  /** Whole, with the address that the client has of the API. */
  url: string;
  expires_at: string;
}

export interface SignalAnswer {
  task_id: string;
  signal: string;
  received_at: string;
}

/** One task of a list. */
export interface TaskSummary {
  task_id: string;
  task_type: string;
  status: TaskStatus;
  labels?: Record<string, string>;
  created_at: string;
  updated_at: string;
}
