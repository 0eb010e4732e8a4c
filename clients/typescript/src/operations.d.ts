// Generated from docs/openapi.json by a test; CONTRIBUTING.md says how. Do not edit.
// Bodies have the keys of the JSON; times in them are texts of RFC 3339 in UTC.
// A later version of the API may add keys, and words to those of a type.

export interface CallOptions {
  signal?: AbortSignal;
}

/** How a method asks, for the client itself. */
export interface Asked {
  method: string;
  path: string;
  sends?: "query" | "body";
  answer: "json" | "items" | "nothing";
}

export const OPERATIONS: Record<string, Record<string, Asked>>;

/** Answer to a submission: 202. */
export interface Accepted {
  /** Its state when it was accepted. */
  status: TaskStatus;
  /** The task's id; also the last segment of `Location`. */
  task_id: TaskId;
}

/** What an alert says: of parked tasks their cause, of others what they are about. */
export interface AlertData {
  /** The breaker, or the process. */
  about?: string | null;
  /** What blocks them. */
  cause?: Cause | null;
  /** The class of the failure. */
  class?: string | null;
  /** Tasks of this cause that were parked when the alert was sent first, as far as they were counted. */
  count?: number | null;
  /** More, for people. */
  detail?: string | null;
  /** One of them: the first of this hour. */
  example?: TaskId | null;
  /** The id of the group of dead letters, for a redrive. Missing where payloads are encrypted. */
  group?: string | null;
  /** The step that gave up. */
  step?: string | null;
  /** Their type's declared name; or the type that was disabled. */
  task_type?: string | null;
  /** Tenant of the tasks. */
  tenant?: Tenant | null;
  /**
   * The text of the failure, with `#` in place of what differs from task to task. Missing where payloads are
   * encrypted.
   */
  text?: string | null;
}

/**
 * What an alert is about. `dead_lettered`: Tasks gave up, and are parked as their policy says.
 * `compensation_failed`: The undo of tasks has given up. `quarantined`: Tasks cannot be read. `type_disabled`: A
 * task type was disabled, since its tasks fail. `breaker_open`: A breaker has opened: a dependency does not
 * answer. `spool_growing`: A worker that cannot reach the database keeps more and more results on its disk.
 * `test`: A person looks whether alerts arrive.
 */
export type AlertEvent =
  | "dead_lettered"
  | "compensation_failed"
  | "quarantined"
  | "type_disabled"
  | "breaker_open"
  | "spool_growing"
  | "test"
  | (string & {});

/** An alert as it is listed. */
export interface AlertView {
  /** Times it was sent. */
  attempts: number;
  /** Details of the event. */
  data: AlertData;
  /** What it is about. */
  event: AlertEvent;
  /** Its id, the header `webhook-id`; the same however often it is sent. */
  id: string;
  /** State of the delivery. */
  status: DeliveryStatus;
  /** When it was last changed. */
  updated_at: string;
  /** When it is sent next, while it is pending. */
  due_at?: string | null;
  /** What came of the last attempt: the status of the answer, or why there was none. */
  last?: string | null;
}

/** A sum of amounts of one currency, of fields that are declared with `x-amount`. */
export interface Amount {
  /** The currency. */
  currency: string;
  /** The sum, as a decimal number: `8213.40`. */
  sum: string;
}

/** One try of a step in one direction, from 1. 0 means "never tried". */
export type Attempt = number;

/** One try of a step. */
export interface AttemptView {
  /** From 1 in each direction. */
  attempt: Attempt;
  /** Whether it runs or undoes the step. */
  direction: Direction;
  /** The epoch it ran under. */
  epoch: Epoch;
  /** Start, by the database's clock. */
  started_at: string;
  /** The step's name. */
  step: string;
  /** End, by the database's clock. */
  ended_at?: string | null;
  /** Its error. */
  error?: string | null;
  /** How it ended; missing while it is open. */
  outcome?: Outcome | null;
  /** The process that ran it, as `worker:{id}`; of an upload who sent it. */
  worker?: string | null;
}

/** One event of a stream of a task, the audit entry that it stands for. Its id is the entry's `seq`. */
export interface AuditEvent {
  /** Who caused it: `client`, or the role and the id of a process, as `worker:{id}`. */
  actor: string;
  /** By the database's clock. */
  at: string;
  /** The change it was part of. */
  change_id: ChangeId;
  /** The epoch under which it was written. */
  epoch: Epoch;
  /** What happened. */
  event: string;
  /** From 1, without gaps. */
  seq: AuditSeq;
  /** The task's state after it. */
  status: TaskStatus;
  /** The task's state after. */
  to: TaskStatus;
  /** The attempt concerned. */
  attempt?: Attempt | null;
  /** More, by event. */
  details?: any;
  /** The task's state before. */
  from?: TaskStatus | null;
  /** The step concerned. */
  step?: string | null;
  /** The step's state before. */
  step_from?: StepStatus | null;
  /** The step's state after. */
  step_to?: StepStatus | null;
}

/** Position of an audit entry within its task, from 1, without gaps. */
export type AuditSeq = number;

/** A task's audit trail and attempts. */
export interface AuditTrail {
  /** In the order of their start. */
  attempts: AttemptView[];
  /** Entries in the order of the audit. */
  entries: AuditView[];
  /** Id of the task. */
  task_id: TaskId;
}

/** One entry of a task's audit trail. */
export interface AuditView {
  /** Who caused it: `client`, or the role and the id of a process, as `worker:{id}`. */
  actor: string;
  /** By the database's clock. */
  at: string;
  /** The change it was part of. */
  change_id: ChangeId;
  /** The epoch under which it was written. */
  epoch: Epoch;
  /** What happened. */
  event: string;
  /** From 1, without gaps. */
  seq: AuditSeq;
  /** The task's state after. */
  to: TaskStatus;
  /** The attempt concerned. */
  attempt?: Attempt | null;
  /** More, by event. */
  details?: any;
  /** The task's state before. */
  from?: TaskStatus | null;
  /** The step concerned. */
  step?: string | null;
  /** The step's state before. */
  step_from?: StepStatus | null;
  /** The step's state after. */
  step_to?: StepStatus | null;
}

/**
 * When a task type stops taking submissions. A value of neutral data, usable in a `const`: ``` # use
 * counterstep_contracts::AutoDisable; pub const ZIP_FAILURES: AutoDisable =
 * AutoDisable::after_failures(5).within("10m").cooldown("5m"); ``` Tasks that were accepted go on, and are undone
 * where they must be. An impossible policy is an error of the compiler: the constructors panic during constant
 * evaluation.
 */
export interface AutoDisable {
  /** Disables the type at this number of consecutive tasks that ended as Failed or were parked ... */
  after_failures: number;
  /**
   * How long it stays disabled. Then a single task is accepted as a probe, and its outcome decides. `None`:
   * disabled until a person enables it, without a probe.
   */
  cooldown: string | null;
  /** ... in the time before now of this length. A task that completes resets the count. */
  within: string;
}

/**
 * The shape of the delays between attempts. `constant`: Every delay is the base delay. `linear`: The n-th delay is
 * n times the base delay. `exponential`: Every delay is twice the one before.
 */
export type Backoff =
  | "constant"
  | "linear"
  | "exponential"
  | (string & {});

/**
 * What becomes of a task beyond those that may be under way. `wait`: It waits until one of them is at rest.
 * `replace`: The older ones are cancelled for it. `refuse`: It is not accepted.
 */
export type Beyond =
  | "wait"
  | "replace"
  | "refuse"
  | (string & {});

/** The failure of an undo, by which a task is parked. */
export interface BlockView {
  /** What kind of failure it is. */
  class: "transient" | "permanent" | "rate_limited" | "timed_out" | "panicked" | "cancelled" | "deadline" | "in_doubt" | "lost" | "replaced" | "unreadable";
  /** In the words of the undo. */
  message: string;
  /** The step whose undo gave up, where one did. */
  step?: string | null;
}

/**
 * When attempts at something are not worth starting. A value of neutral data, usable in a `const`: ``` # use
 * counterstep_contracts::BreakerPolicy; pub const PAYMENTS: BreakerPolicy =
 * BreakerPolicy::named("payments").after_failures(5).within("1m").open_for("30s"); ``` An impossible policy is an
 * error of the compiler: the constructors panic during constant evaluation.
 */
export interface BreakerPolicy {
  /** Opens at this number of failures ... */
  after_failures: number;
  /**
   * The dependency it stands for: all steps of all task types that name it share one breaker. `None`: each step
   * that names the constant has its own.
   */
  name: string | null;
  /** How long it stays open. Then a single attempt is let through as a probe. */
  open_for: string;
  /** ... in a window of this length, which starts with the first of them. */
  within: string;
}

/** Body of `POST /api/breakers/{name}/close`. */
export interface BreakerRequest {
  /** Reason, for the audit. */
  note: string;
  /** Who decides, for the audit. */
  actor?: string | null;
}

/** How a breaker stands. `closed`: Attempts go through. `open`: They are kept back. `half_open`: One of them tries. */
export type BreakerStanding =
  | "closed"
  | "open"
  | "half_open"
  | (string & {});

/** A line of `GET /api/breakers`. */
export interface BreakerView {
  /** Name of the breaker. */
  name: string;
  /**
   * How it stands. Without a Redis each process has its own: then that of the process which lets the fewest
   * attempts through, as of the last refresh of the worker registry.
   */
  state: BreakerStanding;
  /**
   * Without a Redis: the processes whose own breaker is not closed. After a close: those that close theirs with
   * their next refresh.
   */
  processes?: string[];
}

/**
 * What a bulk operation does with each of its tasks. `redrive`: A parked task goes on, with its retries anew:
 * forward after a dead letter, backward after an undo that gave up. `resolve`: A parked task is settled by hand,
 * and ends as resolved. `cancel`: A task that has not ended, and is not parked, is cancelled. `run-again`: A task
 * that has ended runs again, as a new task.
 */
export type BulkAction =
  | "redrive"
  | "resolve"
  | "cancel"
  | "run-again"
  | (string & {});

/** A task for which an operation could not be carried out. */
export interface BulkFailure {
  /** The reason, as text. */
  reason: string;
  /** Id of the task. */
  task_id: TaskId;
}

/** Which tasks an operation is for. All that is given has to fit. */
export interface BulkFilter {
  /** With a failure of this class. */
  failure_class?: "transient" | "permanent" | "rate_limited" | "timed_out" | "panicked" | "cancelled" | "deadline" | "in_doubt" | "lost" | "replaced" | "unreadable";
  /** With this in the text of the failure. */
  failure_text?: string | null;
  /** With all of these labels. */
  labels?: Labels;
  /**
   * A search, as `GET /api/tasks?q=` takes it, each term of which is read as one thing. Answers have what it was
   * read as in the fields below.
   */
  q?: string | null;
  /** Submitted not before this time. */
  since?: string | null;
  /** In one of these states. None: in any state that the action is for; with `run-again` there has to be one. */
  status?: TaskStatus[];
  /** Of this type, by its declared name or its route. */
  type?: string | null;
  /** Submitted before this time. */
  until?: string | null;
}

/** Which tasks an operation is for. All that is given has to fit. */
export interface BulkFilterInput {
  /** With a failure of this class. */
  failure_class?: "transient" | "permanent" | "rate_limited" | "timed_out" | "panicked" | "cancelled" | "deadline" | "in_doubt" | "lost" | "replaced" | "unreadable";
  /** With this in the text of the failure. */
  failure_text?: string | null;
  /** With all of these labels. */
  labels?: Labels;
  /**
   * A search, as `GET /api/tasks?q=` takes it, each term of which is read as one thing. Answers have what it was
   * read as in the fields below.
   */
  q?: string | null;
  /** Submitted not before this time. */
  since?: string | null;
  /** In one of these states. None: in any state that the action is for; with `run-again` there has to be one. */
  status?: TaskStatus[];
  /** Of this type, by its declared name or its route. */
  type?: string | null;
  /** Submitted before this time. */
  until?: string | null;
}

/**
 * What became of a task in an operation. `done`: The operation was carried out. `failed`: It could not be carried
 * out. `skipped`: The task was modified concurrently before its turn, and left alone. `already_run_again`: The
 * task had run again before its turn, and was left alone.
 */
export type BulkOutcome =
  | "done"
  | "failed"
  | "skipped"
  | "already_run_again"
  | (string & {});

/** What an operation would be for: answer to a `preview`. */
export interface BulkPreview {
  /** Whether all tasks were looked at. If not: there may be more than were counted. */
  complete: boolean;
  /** Number of tasks. */
  count: number;
  /** The first of them: the last submitted. */
  tasks: TaskId[];
  /**
   * With `run-again`: number of tasks that have run again before, as new tasks. They are not counted above, and
   * stay as they are.
   */
  already_run_again?: number | null;
  /** Their causes, the most frequent first; of tasks without a failure there is none. */
  causes?: DeadLetterGroup[];
  /** What was asked for. */
  filter?: BulkFilter | null;
  /** The group that was asked for. */
  group?: string | null;
  /** With `run-again`: which tasks would be refused. */
  refused?: BulkRefused | null;
  /** What would be undone, and from where tasks would go on; missing where the action does neither. */
  undo?: BulkUndo | null;
}

/** Which tasks would not run again, of those that were looked at for it. */
export interface BulkRefused {
  /** Why, the most frequent reason first; empty: none of them would be refused. */
  reasons: RefusedFor[];
  /** Number of tasks that were looked at: the last submitted. */
  tasks: number;
}

/** Body of `POST /api/bulk-operations`. */
export interface BulkRequest {
  /** What is done with each task. */
  action: BulkAction;
  /** Why, for the audit of each task. */
  note: string;
  /** Who, by the caller's own words: they stand behind the note. The audit's actor is the caller. */
  actor?: string | null;
  /** With `resolve`: what has become of each task. */
  as?: SettledAs | null;
  /** Tasks like this. An empty one: all that the action is for. */
  filter?: BulkFilterInput | null;
  /** With `run-again`: the step from which each task runs; missing: from the start. */
  from?: string | null;
  /** Tasks of this group. This, or a `filter`, or both. */
  group?: string | null;
  /** How fast it goes, and where it pauses by itself. Missing: as fast as it can, to its end. */
  pace?: PaceInput | null;
  /**
   * With `redrive` and `run-again`: fields of the request of each task that are to be others, a JSON merge patch
   * of RFC 7396. A task whose request would not fit its type stays as it is.
   */
  patch?: any;
  /** Counts the tasks and changes nothing. */
  preview?: boolean;
}

/** How tasks stand now on which an operation was carried out. */
export interface BulkResults {
  /**
   * How many of them are in each state now; with `run-again` of the new tasks. A state that none is in is left
   * out.
   */
  by_status: Record<string, number>;
  /** Number of them that were deleted since, or cannot be read. */
  deleted: number;
  /** Number of tasks that were looked at: those of the first 500 on which it was carried out. */
  tasks: number;
}

/**
 * How an operation stands. `running`: API processes execute it. `paused`: It has paused, or was paused; tasks that
 * were begun are finished. `stopping`: It was stopped, and tasks that were begun are finished. `stopped`: It was
 * stopped; the tasks that are left are as they were. `done`: All of its tasks have been looked at.
 */
export type BulkStatus =
  | "running"
  | "paused"
  | "stopping"
  | "stopped"
  | "done"
  | (string & {});

/** A task of an operation. */
export interface BulkTask {
  /** What became of it in the operation. */
  outcome: BulkOutcome;
  /** The task. */
  task_id: TaskId;
  /** With `run-again`: the new task. */
  new_task_id?: TaskId | null;
  /** Why it could not be carried out. */
  reason?: string | null;
  /** State of the task now, with `run-again` of the new one; missing where it was deleted, or cannot be read. */
  status?: TaskStatus | null;
}

/** What an operation would undo, or let run, of the tasks that were looked at for it. */
export interface BulkUndo {
  /** Number of tasks of which an undo has given up before: they wait for a person again where its reason stands. */
  gave_up: number;
  /** Number of tasks of which a step is in doubt: it is not known how far it came. */
  in_doubt: number;
  /** How often each step would be undone, those of one type together. */
  steps: UndoneStep[];
  /** Number of tasks that were looked at and whose code is known: the last submitted. */
  tasks: number;
  /**
   * Number of tasks that were looked at and whose code this process does not have: what would become of them is
   * not known.
   */
  unknown: number;
  /** Sums of the amounts in the requests of these tasks, by currency. */
  amounts?: Amount[];
  /** How often tasks would go on from each step, those of one type together. */
  goes_on?: GoesOn[];
  /** The tasks that differ most from the others of their type, at most ten. */
  unusual?: UnusualTask[];
}

/** A bulk operation. */
export interface BulkView {
  /** What is done with each task. */
  action: BulkAction;
  /** Who has started it. */
  actor: string;
  /** When it was started. Tasks that are submitted, parked or have ended later are not among its tasks. */
  created_at: string;
  /** Number of tasks on which it was carried out. */
  done: number;
  /** Number of tasks on which it could not be carried out. */
  failed: number;
  /** Tasks like this. */
  filter: BulkFilter;
  /** Id of the operation. */
  id: string;
  /** Reason, for the audit. */
  note: string;
  /** Number of tasks that were modified concurrently before their turn; they were left alone. */
  skipped: number;
  /** State of the operation. */
  status: BulkStatus;
  /** Its last change. */
  updated_at: string;
  /**
   * With `run-again`: number of tasks that had run again before their turn, by another operation or a person; they
   * were left alone.
   */
  already_run_again?: number | null;
  /** With `resolve`: what has become of each task. */
  as?: SettledAs | null;
  /**
   * When it will have ended, at its pace or as fast as it has gone since it was started or resumed; missing while
   * it is paused or waits, and where it is not known.
   */
  expected_end?: string | null;
  /** The first failures. */
  failures?: BulkFailure[];
  /** The step from which each runs again. */
  from?: string | null;
  /**
   * With a pace: number of its tasks that have gone wrong since it was started or resumed, as `max_failures`
   * counts them.
   */
  gone_wrong?: number | null;
  /** Tasks of this group. */
  group?: string | null;
  /** Number of tasks that are left; missing where there were too many to count. */
  left?: number | null;
  /** How fast it goes, and where it pauses by itself. */
  pace?: Pace | null;
  /** What is to be different in the request of each. */
  patch?: any;
  /** Why it is paused. */
  paused_for?: PausedFor | null;
  /** How its tasks stand now; in the answer about one operation alone. */
  results?: BulkResults | null;
  /** What it waits for, and goes on by itself after that. */
  waits_for?: string | null;
}

/** Answer of `GET /api/caller`: who sends the request, as the API has found out. */
export interface CallerView {
  /** Whether it may see and change what is of all tenants: it has the role `admin` in the tenant `default`. */
  is_of_installation: boolean;
  /** What it may do. */
  role: Role;
  /** Tenant whose tasks it reaches. */
  tenant: string;
  /** The id of its API key, where it has one. */
  key?: string | null;
  /** Its name in audits; missing where callers are not authenticated. */
  subject?: string | null;
}

/** Answer to a cancel: 202 or 200. */
export interface CancelAnswer {
  /** What will happen: `nothing-had-run`, `undoing`, `stopping`, `already-cancelled`. */
  outcome: CancelOutcome;
  /** Its state now. */
  status: TaskStatus;
  /** Id of the task. */
  task_id: TaskId;
  /** Names of the steps that will be undone, in that order. A step that is running now is among them. */
  will_undo: string[];
}

/**
 * What a cancel leads to. `nothing-had-run`: No step had effects: it is cancelled. `undoing`: No host is running
 * it: the undo starts at once. `stopping`: A host is running it: its step is told, then the undo starts.
 * `already-cancelled`: It had been cancelled before.
 */
export type CancelOutcome =
  | "nothing-had-run"
  | "undoing"
  | "stopping"
  | "already-cancelled"
  | (string & {});

/** What a task fails by, without its text: of a parked task what blocks it now. */
export interface Cause {
  /** Which way it went. */
  side: CauseSide;
  /** The class of the failure, where there is one. */
  class?: string | null;
  /** The code of the problem document that it answered with. */
  code?: string | null;
  /** The method of that call. */
  method?: string | null;
  /** Where the code panicked, as `src/steps.rs:17`. */
  place?: string | null;
  /** The service that was called, by its name in the settings. */
  service?: string | null;
  /** The status of its answer; missing where none came. */
  status?: number | null;
  /** The step that failed, or whose undo did. */
  step?: string | null;
}

/**
 * Which way a task went when it failed. `forward`: A step, or what belongs to the task as a whole while it goes
 * forward. `undo`: An undo. `unknown`: An older program wrote the failure: nothing is known but its step, class
 * and text.
 */
export type CauseSide =
  | "forward"
  | "undo"
  | "unknown"
  | (string & {});

/**
 * Answer of `GET /api/tasks/{id}/audit/chain`: whether the rows of a task's audit are bound to each other as they
 * were written.
 */
export interface ChainView {
  /** Rows that were checked: one for each change, with all of its entries. */
  changes: number;
  /** Of these, rows whose data was erased. Their digests stand. */
  erased: number;
  /** The hash of the last row, in hexadecimal digits. */
  head: string;
  /** Id of the task. */
  task_id: TaskId;
  /**
   * Whether each row follows from the one before it, and the task's row from the last one. `counterstep audit
   * verify` says what is wrong where not.
   */
  whole: boolean;
}

/**
 * Names one durable change: the task's row, its row in the journal, and the attempts and outbox rows that it wrote
 * all carry it. It is ours and not the database's transaction id, because SQLite has none.
 */
export type ChangeId = string;

/** One line of `GET /api/tasks/{id}/children`. */
export interface ChildSummary {
  /** Its place among the tasks of that step, from 0. */
  place: number;
  /** State of the task. */
  status: TaskStatus;
  /** Name of the step that has submitted it. */
  step: string;
  /** Id of the task. */
  task_id: TaskId;
  /** Its type's declared name. */
  task_type: string;
  /** Why it did not complete. */
  failure?: FailureView | null;
}

/** How many tasks of a key are under way at a time: from their first start to their rest, over all hosts. */
export interface ConcurrencyDecl {
  /** Maximum number of tasks. */
  at_once: number;
  /** What becomes of a further one. */
  beyond: Beyond;
  /**
   * How long no other task of its key must be submitted before a task starts; it replaces the older ones that have
   * not started. `None`: each starts at once.
   */
  debounce: string | null;
}

/** One line of `GET /api/dead-letters`. */
export interface DeadLetter {
  /** What blocks it now. */
  cause: Cause;
  /** When it was submitted. */
  created_at: string;
  /** `dead_lettered` or `compensation_failed`. */
  status: TaskStatus;
  /** Id of the task. */
  task_id: TaskId;
  /** Its type's declared name. */
  task_type: string;
  /** Last change: the one that parked it, or what an operator has done since. */
  updated_at: string;
  /** Its type's version. */
  version: number;
  /** Why it did not complete, with what blocks it now. */
  failure?: FailureView | null;
  /** What it was labelled with when it was submitted. */
  labels?: Labels;
}

/** Parked tasks of one cause. */
export interface DeadLetterGroup {
  /** How many of them are in each state. A state that none is in is left out. */
  by_status: Record<string, number>;
  /** What blocks them now. */
  cause: Cause;
  /** How many there are. */
  count: number;
  /** The last submitted one of them. */
  example: TaskId;
  /** The first of their last changes. */
  first_at: string;
  /** The same for the same cause at any time: a hash of type, cause and masked text. */
  id: string;
  /** The last of their last changes. */
  last_at: string;
  /** Their type's declared name. */
  task_type: string;
  /** What the text of their failure has beside it, with `#` in place of ids, numbers and times. */
  text: string;
  /** The class of their failure, where they have one. */
  class?: string | null;
  /** The task of `first_at`; missing in answers of older programs. */
  first?: TaskId | null;
  /**
   * The version of the program that ran the last attempt of that task, of the 20 largest groups. Missing: it has
   * none, the worker registry does not have the process any more, the task has a long past, or the caller may not
   * see processes.
   */
  first_program?: string | null;
  /** What was last decided about tasks of this cause as one operation, of the 20 largest groups. */
  last_decision?: PastDecision | null;
  /** The step that gave up, or whose undo did. */
  step?: string | null;
}

/** Answer of `GET /api/dead-letters/groups`. */
export interface DeadLetterGroups {
  /** Whether all parked tasks were looked at. If not: the last submitted ones were. */
  complete: boolean;
  /** Tasks that are counted in them. */
  counted: number;
  /** The largest first. */
  groups: DeadLetterGroup[];
  /** Tasks of further groups, where there are more groups than are shown. */
  others: number;
}

/** A parked task with what a person needs to decide: answer of `GET /api/dead-letters/{id}`. */
export interface DeadLetterView {
  /** Its attempts with their errors, in the order of their start. */
  attempts: AttemptView[];
  /** What blocks it now. */
  cause: Cause;
  /** When it was submitted. */
  created_at: string;
  /** The id of its group: parked tasks of the same cause. */
  group: string;
  /** What its steps are given; `null` where it was erased. */
  request: any;
  /** `dead_lettered` or `compensation_failed`. */
  status: TaskStatus;
  /** How far it has come, in order. */
  steps: StepView[];
  /** Id of the task. */
  task_id: TaskId;
  /** Its type's declared name. */
  task_type: string;
  /** Last change: the one that parked it, or what an operator has done since. */
  updated_at: string;
  /** Its type's version. */
  version: number;
  /** What they were given before an operator changed it, the first one first. */
  earlier_requests?: any[];
  /** Why it did not complete, with what blocks it now. */
  failure?: FailureView | null;
  /** What it was labelled with when it was submitted. */
  labels?: Labels;
  /** The trace id of its submission, where it came with one. */
  trace_id?: string | null;
  /** The process that ran its last attempt. */
  worker?: string | null;
}

/** Values of a limit as they are declared. */
export interface DeclaredLimit {
  /** What has the whole limit for itself: `all`, `tenant`, `key`, or `label` and the label's name behind a colon. */
  scope: string;
  /** Maximum number of attempts that run at a time. */
  at_once?: number | null;
  /** Maximum number of starts in a period. */
  rate?: Rate | null;
}

/**
 * How the delivery of a webhook stands. `pending`: It is sent, or sent again, when it is due. `delivered`: The
 * receiver answered 2xx. `failed`: It gave up.
 */
export type DeliveryStatus =
  | "pending"
  | "delivered"
  | "failed"
  | (string & {});

/** A webhook as it is listed. */
export interface DeliveryView {
  /** Times it was sent. */
  attempts: number;
  /** The type of its event. */
  event: string;
  /** Its id, the header `webhook-id`; the same however often it is sent. */
  id: string;
  /** State of the delivery. */
  status: DeliveryStatus;
  /** When it was last changed. */
  updated_at: string;
  /** Where it goes. */
  url: string;
  /** When it is sent next, while it is pending. */
  due_at?: string | null;
  /** What came of the last attempt: the status of the answer, or why there was none. */
  last?: string | null;
}

/** Which way an attempt goes. `forward`: Runs the step. `undo`: Runs its counter-step. */
export type Direction =
  | "forward"
  | "undo"
  | (string & {});

/** The lease's fence number: grows by one with every claim and every take-back. */
export type Epoch = number;

/** How many turns had a failed attempt. */
export interface FailureShare {
  /** Turns that had one. */
  failed: number;
  /** All turns. */
  turns: number;
}

/** Why a task did not complete. */
export interface FailureView {
  /** What kind of failure it is. */
  class: "transient" | "permanent" | "rate_limited" | "timed_out" | "panicked" | "cancelled" | "deadline" | "in_doubt" | "lost" | "replaced" | "unreadable";
  /** In the words of the step. */
  message: string;
  /** What blocks the task now that it is parked, where that is another failure. */
  blocked_by?: BlockView | null;
  /** The step that gave up, where one did. */
  step?: string | null;
}

/** What runs in place of a step that gave up. */
export interface FallbackDecl {
  /** What it reads. */
  inputs: InputDecl[];
  /** The function's name. */
  name: string;
}

/** What keeps a process from fetching messages. */
export interface FetchErrorView {
  /** The words of the broker, or of its client. */
  message: string;
  /** Of this queue, or of this lane of it alone where a consumer is named. */
  queue: string;
  /** The consumer that the process may not use. */
  consumer?: string | null;
  /** The subject that the user of the process may not publish to. */
  denied_subject?: string | null;
}

/** How the tasks of a type share what there is. */
export interface FlowDecl {
  /** How many tasks of a key are under way at a time; `None`: as many as there are. */
  concurrency: ConcurrencyDecl | null;
  /**
   * What is made of the request, as written: tasks of one tenant with the same value share a key. `None`: all
   * tasks of the type do.
   */
  key: string | null;
  /** Which tasks of its queue come before them. */
  priority: Priority;
}

/**
 * What may be shut. `task-type`: A task type takes no submissions. `queue`: No task of a queue is claimed.
 * `workers`: The processes of a machine take no task. `limit`: A limit holds as a person has set it. `breaker`:
 * The breaker of a dependency is open, or lets one attempt through.
 */
export type GateKind =
  | "task-type"
  | "queue"
  | "workers"
  | "limit"
  | "breaker"
  | (string & {});

/** Something that is shut, or set by hand. */
export interface GateView {
  /** What it is. */
  gate: GateKind;
  /** Its name; of processes their role and machine, as `worker:w1`. */
  name: string;
  /** The command that opens it. */
  opens: string;
  /** Who has shut it; missing: it is not known. */
  by?: string | null;
  /** Why. */
  note?: string | null;
  /** Since when; missing: it is not known. */
  since?: string | null;
}

/** A step from which tasks would go on. */
export interface GoesOn {
  /** Of them those in which its last attempt is in doubt. */
  in_doubt: number;
  /** Name of the step. */
  step: string;
  /** Its type's declared name. */
  task_type: string;
  /** Number of tasks that go on from it. */
  tasks: number;
}

/**
 * Answer of `GET /api/history`: how an installation was doing, as the process that answers has looked at it since
 * it started, an hour back at most.
 */
export interface HistoryView {
  /** The first first. */
  samples: SampleView[];
}

/** Where a step runs. `api`: In an API process. `worker`: In a worker process. */
export type Host =
  | "api"
  | "worker"
  | (string & {});

/** The tasks of a type that ended or were parked in an hour, and their steps. */
export interface HourDurations {
  /** How many tasks ended, or were parked, in each state. */
  ended: Record<string, number>;
  /** Its begin. */
  hour: string;
  /** Its steps, by name. */
  steps: StepDurations[];
  /** How long those took that completed. */
  tasks?: Percentiles | null;
}

/** One input of a step: a parameter of its function. */
export interface InputDecl {
  /** The parameter's name. */
  name: string;
  /** `request`, or the name of the step whose output it reads. */
  source: string;
  /** Its type as written. */
  ty: string;
}

/** A step whose code runs in a process of its own. */
export interface IsolateDecl {
  /** Bytes of memory that the process may take; `None`: as many as there are. */
  memory: string | null;
}

/** Results that a process keeps, when it was seen last. */
export interface KeptView {
  /** Their size. */
  bytes: number;
  /** Number of results. */
  results: number;
  /** Age of the oldest, in whole seconds. */
  oldest_seconds?: number | null;
}

/** An API key as it is listed. Times are RFC 3339 in UTC. */
export interface KeyView {
  /** When it was made. */
  created_at: string;
  /** Actor that created the key. */
  created_by: string;
  /** The part of the key that is no secret. */
  id: string;
  /** What its holder may do. */
  role: Role;
  /** Subject that holds the key. */
  subject: string;
  /** Tenant whose tasks its holder may reach. */
  tenant: string;
  /** Until when it is valid. */
  expires_at?: string | null;
  /** When it was revoked. */
  revoked_at?: string | null;
  /** Who revoked it. */
  revoked_by?: string | null;
}

/** Names with values, by which a task is found */
export type Labels = Record<string, string>;

/**
 * How much of something may be used over all processes. A value of neutral data, usable in a `const`: ``` # use
 * counterstep_contracts::Limit; pub const BANK: Limit = Limit::named("bank").at_once(10).rate(50, "1s"); pub const
 * PER_CUSTOMER: Limit = Limit::named("customers").at_once(1).per_label("customer"); ``` An impossible limit is an
 * error of the compiler: the constructors panic during constant evaluation.
 */
export interface Limit {
  /** Maximum number of attempts that run at a time; `None`: no maximum. */
  at_once: number | null;
  /** What it limits: all steps of all task types that name it share it. */
  name: string;
  /** Maximum number of attempts that start in a period; `None`: no maximum. */
  rate: Rate | null;
  /** Each of these has the whole limit for itself. */
  scope: LimitScope;
}

/** What has a limit for itself. */
export type LimitScope = { kind: "all" } | { kind: "tenant" } | { kind: "label"; label: string };

/** Values of a limit that a person has set. Times are RFC 3339 in UTC. */
export interface LimitSetView {
  /** Who has set them. */
  by: string;
  /** Reason, for the audit. */
  note: string;
  /** When they were set. */
  since: string;
  /** Maximum number of attempts that run at a time. */
  at_once?: number | null;
  /** Maximum number of starts in a period. */
  rate?: Rate | null;
}

/** What is in use of a limit. */
export interface LimitUseView {
  /** Number of permits that are held, over all processes. */
  held: number;
  /** The permits that each process holds, by its id; empty for places, since tasks hold those. */
  holders: Record<string, number>;
  /**
   * The tenant, and behind a slash the label value or the digest of the key; empty where all tasks share the
   * limit.
   */
  of: string;
  /** Number of attempts that wait for a permit. */
  waiting: number;
}

/** A limit, what holds of it, and what is in use. */
export interface LimitView {
  /** Name of the limit. */
  name: string;
  /** What is in use: one for all tasks, or one for each tenant or label value. */
  uses: LimitUseView[];
  /** As the task types of this program declare it; missing: they do not. */
  declared?: DeclaredLimit | null;
  /** What a person has set in place of it; missing: what is declared holds. */
  set?: LimitSetView | null;
}

/**
 * How much a line matters. `debug`: For the author. `info`: As expected. `warn`: Not as expected; the work
 * continues. `error`: Gone wrong.
 */
export type LogLevel =
  | "debug"
  | "info"
  | "warn"
  | "error"
  | (string & {});

/** One line of a task's log. */
export interface LogLine {
  /** When it was logged: the database's time, read by the timer of the step's host. */
  at: string;
  /** Which attempt; of a probe, the one that it asks about. */
  attempt: Attempt;
  /** How much it matters. */
  level: LogLevel;
  /** One line, with control characters written out. */
  message: string;
  /** What of that step. */
  part: LogPart;
  /** The step's name. */
  step: string;
}

/** A page of a task's log. */
export interface LogPage {
  /** Number of lines of the task that were dropped, the oldest first: a log is bounded. */
  dropped: number;
  /** In the order in which they were written. */
  lines: LogLine[];
  /**
   * Number of lines that cannot be read: they were erased with the payload keys of their tenant, or their key is
   * missing here.
   */
  unreadable: number;
  /** Hand it back as `?cursor=` for the lines behind these, now or later; missing while there is no line. */
  cursor?: string | null;
}

/** Which code of a step has logged. `run`: The step, or its fallback. `undo`: Its undo. `probe`: Its probe. */
export type LogPart =
  | "run"
  | "undo"
  | "probe"
  | (string & {});

/** The processes of a machine that have the same role. */
export interface MachineView {
  /** The machine's name. */
  machine: string;
  /** How many of them are alive. */
  processes: number;
  /** `worker`, `api`, or `dev`. */
  role: string;
  /** How many tasks those ran when they were seen last. */
  running_count: number;
  /** Since when they are paused, and why; missing: they are not. */
  paused?: PauseView | null;
}

/**
 * What becomes of due times that no reconciler fired within the schedule's grace: all were away, say. Those within
 * it all fire. `fire_once`: Where none fires in time, the newest of them does, late; the others are skipped.
 * `skip`: They are skipped. `catch_up`: Each of them fires, the oldest first.
 */
export type Misfire =
  | "fire_once"
  | "skip"
  | "catch_up"
  | (string & {});

/** A breaker and the name under which the declaration refers to it. */
export interface NamedBreaker {
  /** The constant's path as written. */
  name: string;
  /** The policy of the breaker. */
  policy: BreakerPolicy;
  /** What holds instead, where the settings change it */
  effective?: BreakerPolicy;
}

/** A retry policy and the name under which the declaration refers to it. */
export interface NamedPolicy {
  /** The constant's path as written, or `built-in`, `none`, `undo` for the defaults. */
  name: string;
  /** The retry policy. */
  policy: RetryPolicy;
  /** What holds instead, where the settings change it */
  effective?: RetryPolicy;
}

/** Turns of other processes. */
export interface NeighboursView {
  /** How many of the turns had a failed attempt. */
  failures: FailureShare;
  /** Processes that had such turns. */
  processes: number;
}

/** Answer to it: the only one that holds the key. */
export interface NewKey {
  /** When it was made. */
  created_at: string;
  /** Actor that created the key. */
  created_by: string;
  /** The part of the key that is no secret. */
  id: string;
  /** `cs_{id}_{secret}`, for `Authorization: Bearer`. It is stored as a hash and never shown again. */
  key: string;
  /** What its holder may do. */
  role: Role;
  /** Subject that holds the key. */
  subject: string;
  /** Tenant whose tasks its holder may reach. */
  tenant: string;
  /** Until when it is valid. */
  expires_at?: string | null;
  /** When it was revoked. */
  revoked_at?: string | null;
  /** Who revoked it. */
  revoked_by?: string | null;
}

/** Body of `POST /api/keys`. */
export interface NewKeyRequest {
  /** What its holder may do. */
  role: Role;
  /** Who holds it: its name in audits. 1 to 100 of `A-Z a-z 0-9 . _ @ -`. */
  subject: string;
  /** For how long it is valid, as `90d`; missing: until it is revoked. */
  expires_in?: string | null;
  /**
   * Tenant whose tasks its holder may reach; missing: the caller's tenant. Another tenant is for administrators of
   * the tenant `default`.
   */
  tenant?: string | null;
}

/** A step that no undo touches. */
export interface NotUndone {
  /** Why it is not undone. */
  kind: NotUndoneKind;
  /** The same for people; for a waived undo the declaration's words. */
  reason: string;
  /** State of the step. */
  status: StepStatus;
  /** Name of the step. */
  step: string;
}

/**
 * Why a step is not undone. `waived`: The declaration waives its undo, and says why. `pure`: It has no effects.
 * `undone`: It has been undone. `settled`: A person has settled it. `kept`: The task that this one runs again did
 * it. `ended`: Its task has ended with its effects, and nothing undoes a task that has ended.
 */
export type NotUndoneKind =
  | "waived"
  | "pure"
  | "undone"
  | "settled"
  | "kept"
  | "ended"
  | (string & {});

/**
 * What happens to a task when a step has used up its retries, or failed permanently. `compensate`: Undo everything
 * that started, in reverse. `fail`: End as Failed and leave what was done; the task says so with `residue`.
 * `dead_letter`: Park it for a person.
 */
export type OnExhausted =
  | "compensate"
  | "fail"
  | "dead_letter"
  | (string & {});

/**
 * What happens to a task when the host that ran it forward is lost. `requeue`: Another host runs the step in doubt
 * again, up to `max_recoveries` consecutive times. `fail`: It is undone at once: its steps must not run twice
 * unasked.
 */
export type OnLost =
  | "requeue"
  | "fail"
  | (string & {});

/**
 * What happens when a probe has used up its retries: it is unknown whether the step happened. `park`: Park the
 * task for a person. `run_again`: Go on as without a probe: the step runs again, and its undo gets no output.
 */
export type OnProbeFailure =
  | "park"
  | "run_again"
  | (string & {});

/**
 * What happens when an undo has used up its retries. `stop`: Park the task at once. `continue`: Undo the other
 * steps first, then park it.
 */
export type OnUndoFailure =
  | "stop"
  | "continue"
  | (string & {});

/** An effect of a step. */
export interface OpenEffect {
  /** Why it is open. */
  kind: OpenEffectKind;
  /** Number of the step. */
  no: StepNo;
  /** The same for people. */
  reason: string;
  /** Name of the step. */
  step: string;
  /** The amounts that its output declares; where it has none yet, those of the request. */
  amounts?: Amount[];
  /** The service that the last failure of the step or its undo names. */
  service?: string | null;
}

/**
 * Why an effect is open. `in_doubt`: It may be there or not: the last attempt of its step did not tell.
 * `undo_failed`: Its step has done it and its undo gave up: it is there, unless an attempt of the undo did more
 * than it told. `parked`: Its task is parked: it is there until a person decides. `left`: Its task has ended and
 * it is there on purpose: by `on_exhausted = "fail"`, or because a person settled the task so. `waived`: It is
 * there, and stays: the declaration waives its undo.
 */
export type OpenEffectKind =
  | "in_doubt"
  | "undo_failed"
  | "parked"
  | "left"
  | "waived"
  | (string & {});

/** Open effects of one kind, of one step. */
export interface OpenEffectSum {
  /** How many. */
  effects: number;
  /** One of the tasks: the newest. */
  example: TaskId;
  /** Why they are open. */
  kind: OpenEffectKind;
  /** The least `since` of their tasks, in UTC. */
  oldest: string;
  /** Name of the step. */
  step: string;
  /** Declared name of the type. */
  task_type: string;
  /** Sums of their amounts, one of each currency. */
  amounts?: Amount[];
  /** The service that the failures of the step or its undo name. */
  service?: string | null;
}

/** Open effects, counted. */
export interface OpenEffectSums {
  /** Whether all tasks were looked at; otherwise the newest parked ones, and the newest that have ended. */
  complete: boolean;
  /** By kind, and of a kind the most frequent first. */
  sums: OpenEffectSum[];
  /** Tasks with open effects that were counted. */
  tasks: number;
  /** Tasks whose type this program does not know, or whose rows it cannot read: what they have done is not counted. */
  unknown: number;
}

/** A task with open effects. */
export interface OpenEffects {
  /** Its open effects, the last step first. */
  effects: OpenEffect[];
  /** When it was last changed, in UTC. */
  since: string;
  /** State of the task. */
  status: TaskStatus;
  /** Id of the task. */
  task_id: TaskId;
  /** Its type's declared name. */
  task_type: string;
}

/** Answer to a resolve or a retry. */
export interface OperatorAnswer {
  /** Steps that wait for a decision still. While there are any, the task stays parked. */
  open_steps: string[];
  /** Its state now. */
  status: TaskStatus;
  /** Id of the task. */
  task_id: TaskId;
  /** Steps that will be undone, in that order. */
  will_undo: string[];
}

/** A call that an operator can make, or a command. */
export interface OperatorMove {
  /** What it does, for people. */
  does: string;
  /** What it is, for programs: `cancel`, `retry`, `step-done`, `resume-queue` … */
  name: string;
  /** For people, behind "What would happen if I …". */
  title: string;
  /** Fields of the body that a person may add, or has to where it has them as null. `body`: all of it. */
  asks?: string[];
  /** A body to start from; missing where the call takes none, or where `asks` has all of it. */
  body?: any;
  /** The text of its button; missing where it is a command. */
  button?: string;
  /** Arguments of the program's command line, where no call of the API does it. */
  command?: string | null;
  /**
   * The reason that it ends. Missing: it is about the task, whatever it waits for. A reason that no call ends is
   * over at its `until`.
   */
  ends?: WhyCode | null;
  /** HTTP method; missing where it is a command. */
  method?: string;
  /** `operationId` of the call in the OpenAPI document; missing where it is a command. */
  operation?: string | null;
  /** Path; missing where it is a command. */
  path?: string;
  /** The role that the call needs; missing where it is a command. */
  role?: Role | null;
  /** The step concerned; missing: the whole task, or something beside it. */
  step?: string | null;
}

/**
 * How an attempt ended. `succeeded`: Its result was committed. `failed`: It returned an error, panicked or timed
 * out. `in_doubt`: Its end is unknown: its lease was lost, or its process shut down. `cancelled`: Its token was
 * cancelled on request and it stopped.
 */
export type Outcome =
  | "succeeded"
  | "failed"
  | "in_doubt"
  | "cancelled"
  | (string & {});

/**
 * What becomes of a due time while the schedule's last task has not come to rest. `skip`: It is skipped; one that
 * comes only once waits. `queue`: It waits until that task rests, and those behind it with it. `allow`: It fires
 * all the same.
 */
export type Overlap =
  | "skip"
  | "queue"
  | "allow"
  | (string & {});

/**
 * How fast an operation goes, and where it pauses by itself. While a circuit breaker of a step of its next tasks
 * is open, an operation with a pace waits; when that lets one attempt through again, it goes on with one task, and
 * with more once it closes. Tasks that are undone, cancelled or settled wait for none.
 */
export interface Pace {
  /**
   * Pauses when this many of its tasks have gone wrong since it was started or resumed: it could not be carried
   * out on them, or they are parked (again), or were to go on and have ended as failed. At most four times as
   * many, and 20 to 500, of its tasks are under way at a time.
   */
  max_failures?: number | null;
  /** Maximum number of tasks that it decides on in a minute, on average. */
  per_minute?: number | null;
  /**
   * Decides on this many tasks, and pauses until a person resumes it. A cancel decides on the selected tasks above
   * one with it.
   */
  sample?: number | null;
}

/**
 * How fast an operation goes, and where it pauses by itself. While a circuit breaker of a step of its next tasks
 * is open, an operation with a pace waits; when that lets one attempt through again, it goes on with one task, and
 * with more once it closes. Tasks that are undone, cancelled or settled wait for none.
 */
export interface PaceInput {
  /**
   * Pauses when this many of its tasks have gone wrong since it was started or resumed: it could not be carried
   * out on them, or they are parked (again), or were to go on and have ended as failed. At most four times as
   * many, and 20 to 500, of its tasks are under way at a time.
   */
  max_failures?: number | null;
  /** Maximum number of tasks that it decides on in a minute, on average. */
  per_minute?: number | null;
  /**
   * Decides on this many tasks, and pauses until a person resumes it. A cancel decides on the selected tasks above
   * one with it.
   */
  sample?: number | null;
}

/** The parent of a task, as clients see it. */
export interface ParentView {
  /** Its place among the tasks of that step, from 0. */
  place: number;
  /**
   * Number of the parent's step that waits for it. Its name stands in the parent's `steps`: a child does not read
   * its parent.
   */
  step: StepNo;
  /** The parent. */
  task_id: TaskId;
}

/** A pass of a reconciler. */
export interface PassView {
  /** What it did, by name. */
  counts: Record<string, number>;
  /** Since its end. */
  seconds_ago: number;
}

/** A decision about tasks of a cause, and how those stand now on which it was carried out. */
export interface PastDecision {
  /** What was done with each task. */
  action: BulkAction;
  /** Who has started it. */
  actor: string;
  /** When it was started. */
  at: string;
  /** Reason, for the audit. */
  note: string;
  /** Id of the operation. */
  operation: string;
  /** How its tasks stand now. */
  results: BulkResults;
}

/** A pause. Times are RFC 3339 in UTC. */
export interface PauseView {
  /** Who has paused it. */
  by: string;
  /** Reason, for the audit. */
  note: string;
  /** Since when. */
  since: string;
}

/** Body of `POST /api/workers/{machine}/pause` and `/resume`. */
export interface PauseWorkersRequest {
  /** Reason, for the audit. */
  note: string;
  /** Who decides, for the audit. */
  actor?: string | null;
  /** Which processes of the machine: `worker`, `api`, or `dev`. */
  role?: string;
}

/**
 * Why an operation is paused. `sample`: It has decided on its sample. `failures`: As many of its tasks have gone
 * wrong as `max_failures` says. `person`: A person has paused it.
 */
export type PausedFor =
  | "sample"
  | "failures"
  | "person"
  | (string & {});

/** Answer of `GET /api/tasks/{id}/payloads`: what was handed in, and what steps have put out so far. */
export interface Payloads {
  /** Of the steps that have an output, in order. */
  outputs: StepOutput[];
  /** The request; `null` where it was erased. */
  request: any;
  /** Id of the task. */
  task_id: TaskId;
  /** What it was before an operator changed it, the first one first. */
  earlier_requests?: any[];
}

/**
 * How long something took, in milliseconds. Each is at most 5 %, or half a millisecond, away from what was
 * measured.
 */
export interface Percentiles {
  /** How often it was measured. */
  count: number;
  /** Half took no longer. */
  p50_ms: number;
  /** 95 of 100 took no longer. */
  p95_ms: number;
  /** 99 of 100 took no longer. */
  p99_ms: number;
}

/** One step's undo in a plan. */
export interface PlannedUndo {
  /** Whether its undo has given up before: only an operator's retry tries it again. */
  gave_up: boolean;
  /** Whether it is unknown how far it came: its undo gets no output, unless a probe finds one. */
  in_doubt: boolean;
  /** Number of the step. */
  no: StepNo;
  /** State of the step. */
  status: StepStatus;
  /** Name of the step. */
  step: string;
  /** The function that undoes it, or `built-in`. */
  undo: string;
  /** Undo tries so far. */
  undo_attempts: Attempt;
  /** The function that finds out first how far it came, where it is in doubt and there is one. */
  probe?: string | null;
}

/** Answer of `GET /api/poison-messages`. */
export interface PoisonMessages {
  /** The last kept first, at most 200. */
  items: PoisonView[];
}

/** A message that no host can read. It is kept, and is not delivered again. */
export interface PoisonView {
  /** When it was kept. */
  at: string;
  /** Id of the dead letter. */
  id: string;
  /** Its bytes; of a long one the first 64 KiB. What is no UTF-8 is replaced. */
  payload: string;
  /** The queue that it came from. */
  queue: string;
  /** Why it is not acted on. */
  reason: string;
  /** How many bytes there were. */
  size_bytes: number;
  /** Names the message in its queue. */
  source: string;
  /** The subject that it was found under. */
  subject: string;
}

/** The task that another one runs again. */
export interface PredecessorView {
  /** Its id. Retention may have deleted it. */
  task_id: TaskId;
  /** The step from which it runs again; missing: from the start. */
  from?: string | null;
}

/**
 * Which tasks of a queue of workers come first. `high`: They wait beside the others, which they need not wait for.
 * `normal`: In the order of submissions. `low`: Behind the others, with what large tenants have waiting.
 */
export type Priority =
  | "high"
  | "normal"
  | "low"
  | (string & {});

/**
 * What went wrong, for programs. A code never changes its meaning and is never reused. `malformed-body`: The body
 * is not what its content type says. `malformed-parameter`: A part of the path or query is not of its form.
 * `malformed-idempotency-key`: The `Idempotency-Key` header is not of its form. `malformed-authorization`: The
 * `Authorization` header is not of its form, or there are several. `unauthenticated`: The caller is not
 * authenticated: no credential, or one that is unknown, expired or revoked. `forbidden`: The caller's role does
 * not allow it. `host-not-allowed`: The `Host` is no name of this server. `cross-site`: A page of another site
 * sends what would change something. `no-such-route`: No such route. `no-such-task`: No task of this id.
 * `no-such-task-type`: No task type of this name. `no-such-result`: The task's response has no stored file of this
 * name. `no-such-link`: A link to a result that is not valid, has expired, or leads to nothing. `no-such-signal`:
 * No step of the task's type waits for a signal of this name. `no-such-step`: The task's type has no step of this
 * name. `no-such-schedule`: No schedule of this name. `no-such-webhook`: The task has no webhook of this id.
 * `no-such-key`: No API key of this id. `no-such-queue`: No queue of this name. `no-such-workers`: No process of
 * this id, or of this role on a machine of this name. `no-such-breaker`: No breaker of this name. `no-such-view`:
 * No saved view has this name. `no-such-limit`: No limit of this name. `no-such-bulk-operation`: The tenant has no
 * bulk operation of this id. `no-such-entry`: The audit of the task has no entry of this number.
 * `no-such-poison-message`: No poison message of this id. `method-not-allowed`: The route has other methods.
 * `slow-body`: The body arrived too slowly. `in-progress`: Same idempotency key, first request still in progress.
 * `already-completed`: Cancel: it had already completed. `already-failed`: Cancel: it had already failed.
 * `being-undone`: Cancel: it is being undone for another reason. `already-resolved`: Cancel: a person settled it.
 * `already-ended`: Recoveries: the task has ended. `parked`: Cancel: it waits for a person. `not-cancellable`:
 * Cancel: its type does not allow it. `not-parked`: Resolve, retry: it does not wait for a person.
 * `not-settleable`: Resolve: not like that, in the state of the task or the step. `no-way-forward`: Retry: it is
 * being undone, and no step runs forward again. `not-ended`: Run again: the task has not ended.
 * `declaration-changed`: Run again from a step: the program has another version or definition of its type.
 * `effects-undone`: Run again from a step: an earlier one was undone, or settled by hand. `step-not-completed`:
 * Run again from a step: an earlier one has not completed. `scratch-read`: Run again from a step: it, or a later
 * one, reads local files of an earlier one. `tasks-submitted`: Run again from a step: an earlier one has submitted
 * tasks. `payload-erased`: Run again: its request, or an output that is kept, was erased. `files-gone`: Run again:
 * files that it needs are not there any more. `alerts-off`: Alerts: no address is set to which they go.
 * `request-not-changeable`: Retry: a step has submitted tasks by the request, or the task is being undone.
 * `type-disabled`: Its type takes no submissions for now. `schedule-declared`: Schedule: a program declares it.
 * `schedule-busy`: Schedule: its last task runs, and it does not allow two. `not-completed`: The task has no
 * result yet, or never will. `signal-too-late`: Signal: the task no longer waits for it. `signal-taken`: Signal:
 * another body was accepted for it before. `group-renamed`: Bulk operation: an older program named the group, and
 * it has other ids now. `too-large`: Body or part over its limit. `address-too-long`: The address over its limit.
 * `unsupported-media-type`: Another content type is needed. `range-not-satisfiable`: Result: the file has no byte
 * of the range. `invalid-request`: The body can be read and breaks a rule. `invalid-output`: Resolve: the output
 * does not fit the step's declared type. `idempotency-mismatch`: Same idempotency key, other body.
 * `invalid-webhook`: A webhook may not go to this address. `webhooks-off`: This server sends no webhooks.
 * `links-off`: This server makes no links to results. `invalid-label`: A label that is not acceptable.
 * `invalid-file-name`: A file name that is not acceptable. `header-too-large`: A header is too large. `internal`:
 * Our fault; the log has the details. `too-many-requests`: The caller sends more requests than it may, or has as
 * many streams or uploads open as it may. `too-many-waiting`: More tasks of the type wait than may.
 * `too-many-at-once`: As many tasks of the type or key are under way as may be. `too-many-streams`: As many
 * streams are open as the process takes. `unavailable`: A server that is needed does not answer. `storage-full`:
 * The disk of the database or of the object store is full.
 */
export type ProblemCode =
  | "malformed-body"
  | "malformed-parameter"
  | "malformed-idempotency-key"
  | "malformed-authorization"
  | "unauthenticated"
  | "forbidden"
  | "host-not-allowed"
  | "cross-site"
  | "no-such-route"
  | "no-such-task"
  | "no-such-task-type"
  | "no-such-result"
  | "no-such-link"
  | "no-such-signal"
  | "no-such-step"
  | "no-such-schedule"
  | "no-such-webhook"
  | "no-such-key"
  | "no-such-queue"
  | "no-such-workers"
  | "no-such-breaker"
  | "no-such-view"
  | "no-such-limit"
  | "no-such-bulk-operation"
  | "no-such-entry"
  | "no-such-poison-message"
  | "method-not-allowed"
  | "slow-body"
  | "in-progress"
  | "already-completed"
  | "already-failed"
  | "being-undone"
  | "already-resolved"
  | "already-ended"
  | "parked"
  | "not-cancellable"
  | "not-parked"
  | "not-settleable"
  | "no-way-forward"
  | "not-ended"
  | "declaration-changed"
  | "effects-undone"
  | "step-not-completed"
  | "scratch-read"
  | "tasks-submitted"
  | "payload-erased"
  | "files-gone"
  | "alerts-off"
  | "request-not-changeable"
  | "type-disabled"
  | "schedule-declared"
  | "schedule-busy"
  | "not-completed"
  | "signal-too-late"
  | "signal-taken"
  | "group-renamed"
  | "too-large"
  | "address-too-long"
  | "unsupported-media-type"
  | "range-not-satisfiable"
  | "invalid-request"
  | "invalid-output"
  | "idempotency-mismatch"
  | "invalid-webhook"
  | "webhooks-off"
  | "links-off"
  | "invalid-label"
  | "invalid-file-name"
  | "header-too-large"
  | "internal"
  | "too-many-requests"
  | "too-many-waiting"
  | "too-many-at-once"
  | "too-many-streams"
  | "unavailable"
  | "storage-full"
  | (string & {});

/** How far a task has come. */
export interface Progress {
  /** Steps that completed or were skipped. */
  done: number;
  /** All steps. */
  total: number;
}

/** How far the running steps of a task say they are: an event without an id. A hint: it may be late, or missing. */
export interface ProgressEvent {
  /** By the names of steps. */
  steps: Record<string, StepProgress>;
}

/** Body of `POST /api/queues/{name}/pause` and `/resume`. */
export interface QueueRequest {
  /** Reason, for the audit. */
  note: string;
  /** Who decides, for the audit. */
  actor?: string | null;
}

/** A queue. */
export interface QueueView {
  /** Tasks that wait to be claimed: those that are submitted or dispatched. */
  depth: number;
  /**
   * Tasks that came to wait on it in a minute, over the last five minutes at most, as the processes have counted
   * that are alive.
   */
  in_per_minute: number;
  /** Its name; that of an API process ends in `.api`. */
  name: string;
  /** The same of tasks that wait on it no more: they were claimed, or ended without. */
  out_per_minute: number;
  /** Tasks of all tenants that have not ended and were offered on it last, by state. */
  tasks: Record<string, number>;
  /**
   * After how many seconds none would wait, were it to go on like this; missing: none waits, or they do not become
   * fewer.
   */
  empty_in_seconds?: number | null;
  /** Since when the one of them has waited that waits for the longest time, in whole seconds; missing: none waits. */
  oldest_seconds?: number | null;
  /** Since when it is paused, and why; missing: it is not. */
  paused?: PauseView | null;
}

/** Maximum number of starts in a period, evenly spaced. */
export interface Rate {
  /** ... in each period of this length, as in `"1s"`. */
  per: string;
  /** Number of starts ... */
  starts: number;
}

/** A turn that has ended. */
export interface RecentTurnView {
  /** When it ended. */
  ended_at: string;
  /** Attempts of steps and undos that failed in it. */
  failed_attempts: number;
  /** How the turn has ended. */
  outcome: TurnOutcome;
  /** Id of the task. */
  task_id: TaskId;
  /** Declared name of its type. */
  task_type: string;
  /** From the claim to the end, in milliseconds. */
  took_millis: number;
}

/** Answer to it. */
export interface RecoveriesAnswer {
  /** What its type allows (`max_recoveries`). */
  allowed: number;
  /** What counts now. */
  recovery_attempts: number;
  /** Its state; the same as before. */
  status: TaskStatus;
  /** Id of the task. */
  task_id: TaskId;
}

/** Body of `POST /api/tasks/{id}/recoveries`. */
export interface RecoveriesRequest {
  /** Why, for the audit. */
  note: string;
  /** New value of the counter of consecutive host losses; 0 to `max_recoveries` of the task's type. */
  recovery_attempts: number;
  /** Who, by the caller's own words: they stand behind the note. The audit's actor is the caller. */
  actor?: string | null;
}

/** A reason for which tasks would be refused. */
export interface RefusedFor {
  /** The reason, as text. */
  reason: string;
  /** Number of tasks. */
  tasks: number;
}

/** Body of `POST /api/limits/{name}/reset`. */
export interface ResetLimitRequest {
  /** Reason, for the audit. */
  note: string;
  /** Who decides, for the audit. */
  actor?: string | null;
}

/** Body of `POST /api/tasks/{id}/resolve`. */
export interface ResolveRequest {
  /** What has become of it. */
  as: SettledAs;
  /** Why, for the audit. */
  note: string;
  /** Who, by the caller's own words: they stand behind the note. The audit's actor is the caller. */
  actor?: string | null;
  /** The step's output, with `done` only; it must fit the declared type. A missing one counts as `null`. */
  output?: any;
  /** The step that is settled; missing: the whole task, which then ends as Resolved. */
  step?: string | null;
  /** The task that has done it, with `redriven` only. */
  task?: TaskId | null;
}

/** Answer to it. */
export interface ResultLink {
  /** Until when: RFC 3339 in UTC. */
  expires_at: string;
  /** Where the file is: path and query on the server that has answered. Its holder needs no credential. */
  url: string;
}

/**
 * When and how often a step, or an undo, is tried again. A value of neutral data, usable in a `const`: ``` # use
 * counterstep_contracts::RetryPolicy; pub const ZIP_RETRY: RetryPolicy =
 * RetryPolicy::exponential("500ms").max_retries(3).cap("10s"); ``` An impossible policy is an error of the
 * compiler: the constructors panic during constant evaluation.
 */
export interface RetryPolicy {
  /** Limit of a single attempt, a fresh one each; `None`: the limit of the settings (10 minutes by default). */
  attempt_timeout: string | null;
  /** How the delays grow. */
  backoff: Backoff;
  /** First delay. */
  base: string;
  /** No delay is longer. */
  cap: string;
  /** Spread each delay evenly over the upper half of its length, so that a herd does not come back together. */
  jitter: boolean;
  /** Tries after the first one. */
  max_retries: number;
}

/** Body of `POST /api/tasks/{id}/retry`. */
export interface RetryRequest {
  /** Why, for the audit. */
  note: string;
  /** Who, by the caller's own words: they stand behind the note. The audit's actor is the caller. */
  actor?: string | null;
  /**
   * `forward`: the steps that gave up run again. `undo`: everything is undone. Missing: `forward` for a dead
   * letter, `undo` for a task whose undo gave up.
   */
  direction?: Direction | null;
  /** Fields of the request that are to be others, in place of `request`: a JSON merge patch of RFC 7396. */
  patch?: any;
  /**
   * Another request, with `forward`: steps that start from then on are given it. It must fit the type and have the
   * same files.
   */
  request?: any;
}

/**
 * What a caller may do. Each role includes those before it. `read`: Read tasks, their files, schedules and task
 * types of its tenant. `submit`: Submit tasks, cancel them, send them signals. `operate`: Decide about parked
 * tasks, also about many at a time, set schedules, send webhooks again. `admin`: List, make and revoke API keys of
 * its tenant. In the tenant `default`, which is that of the installation, also what is about all tenants: keys of
 * any, task types, queues, limits, processes and their metrics.
 */
export type Role =
  | "read"
  | "submit"
  | "operate"
  | "admin"
  | (string & {});

/** Body of `POST /api/tasks/{id}/run-again`. */
export interface RunAgainRequest {
  /** Why, for the audit. */
  note: string;
  /** Who, by the caller's own words: they stand behind the note. The audit's actor is the caller. */
  actor?: string | null;
  /** The step from which it runs: the outputs of the steps before it are kept. Missing: from the start. */
  from?: string | null;
  /** Fields of the request that are to be others, in place of `request`: a JSON merge patch of RFC 7396. */
  patch?: any;
  /** Another request. It must fit the type and have the same files. */
  request?: any;
}

/** A task that a process runs. */
export interface RunningTaskView {
  /** Id of the task. */
  task_id: TaskId;
  /** When the process has claimed it. */
  since?: string | null;
  /** The step that runs; of several the one that has begun last. */
  step?: string | null;
  /** Declared name of its type; missing: it waits for room, a permit or its claim. */
  task_type?: string | null;
}

/** What one look has found. Numbers are over all tenants. */
export interface SampleView {
  /** When it looked. */
  at: string;
  /** Tasks that ended in that time, by how they did; of types that the process knows. */
  ended: Record<string, number>;
  /** The time since the look before, in milliseconds: in it came and went what is counted next. */
  millis: number;
  /** Tasks that these processes may run at a time. */
  slots: number;
  /** Tasks that they ran. */
  slots_busy: number;
  /** Tasks that were submitted in that time. */
  submitted: number;
  /** Tasks that had not ended, by state. */
  tasks: Record<string, number>;
  /** Tasks that waited to be claimed, by queue. */
  waiting: Record<string, number>;
  /** Processes that were seen lately. */
  workers_alive: number;
  /** Processes that were not, and did not say that they stop. */
  workers_lost: number;
  /** Of the task that could be claimed for the longest time. */
  oldest_due_seconds?: number | null;
}

/** A saved view. */
export interface SavedView {
  /** Who has saved it last. */
  by: string;
  /** Its name, as `view:NAME` has it. */
  name: string;
  /** The search. */
  q: string;
  /** When. */
  updated_at: string;
  /** The columns that the page shows. */
  columns?: string | null;
}

/**
 * Where a schedule comes from. `code`: A program declares it; it fires as long as a reconciler of such a program
 * runs. `api`: It was made over the API.
 */
export type ScheduleOrigin =
  | "code"
  | "api"
  | (string & {});

/** Body of `PUT /api/schedules/{name}`. Either `cron` or `run_at`. */
export interface ScheduleSpec {
  /** The task type, by its declared name or its route. */
  type: string;
  /** Maximum number of due times that fire at once, the newest; those before them are skipped. */
  catch_up_limit?: number;
  /**
   * Five fields (minute, hour, day of the month, month, day of the week), six with the second first, or a name
   * like `@daily`.
   */
  cron?: string | null;
  /** A due time counts as missed when it is later than this. */
  grace?: string;
  /** What becomes of due times that passed unfired. */
  misfire?: Misfire;
  /** What becomes of a due time while the last task runs. */
  overlap?: Overlap;
  /** The request that each task is submitted with. */
  request?: any;
  /** Once, then. */
  run_at?: string | null;
  /** In which the expression is meant, as `Europe/Berlin`; UTC where it is missing. */
  zone?: string | null;
}

/** A schedule as `GET /api/schedules/{name}` shows it. */
export interface ScheduleView {
  /** Maximum number of due times that fire at once, the newest; those before them are skipped. */
  catch_up_limit: number;
  /** Made. */
  created_at: string;
  /** A due time counts as missed when it is later than this. */
  grace: string;
  /** What becomes of due times that passed unfired. */
  misfire: Misfire;
  /** Name of the schedule. */
  name: string;
  /** Where it comes from. */
  origin: ScheduleOrigin;
  /** What becomes of a due time while the last task runs. */
  overlap: Overlap;
  /** Whether it is paused. */
  paused: boolean;
  /** The request that each task is submitted with. */
  request: any;
  /** Grows with each change and each firing. */
  revision: number;
  /** The task type, by its declared name or its route. */
  type: string;
  /** Last change, or last firing. */
  updated_at: string;
  /**
   * Five fields (minute, hour, day of the month, month, day of the week), six with the second first, or a name
   * like `@daily`.
   */
  cron?: string | null;
  /** The due time that fired last. */
  last_due_at?: string | null;
  /** When it fired last, by a due time or by hand. */
  last_fired_at?: string | null;
  /** The task that it submitted last. */
  last_task?: TaskId | null;
  /** Its next due time; missing where none will come, and while it is paused. */
  next_due_at?: string | null;
  /** Once, then. */
  run_at?: string | null;
  /** The next due times, as many as were asked for with `?next=`. */
  upcoming?: string[];
  /** What is refused of its words today: an earlier version took them, and it goes on as it did. */
  warning?: string | null;
  /** In which the expression is meant, as `Europe/Berlin`; UTC where it is missing. */
  zone?: string | null;
}

/** Body of `PUT /api/limits/{name}`: values in place of those that are declared. At least one of them. */
export interface SetLimitRequest {
  /** Reason, for the audit. */
  note: string;
  /** Who decides, for the audit. */
  actor?: string | null;
  /** Maximum number of attempts that run at a time; missing: no maximum. */
  at_once?: number | null;
  /** Maximum number of attempts that start in a period; missing: no maximum. */
  rate?: Rate | null;
}

/** How a person has settled a task. */
export interface Settled {
  /** What has become of it. */
  as: SettledAs;
  /** The task that has done it, with `redriven`. */
  task?: TaskId | null;
}

/**
 * What a person says has become of a step, or of a whole task. `done`: It has been done by hand. For a step the
 * output comes with it. `undone`: It has been undone by hand. `skipped`: It stays as it is, effects included; the
 * task says so with `residue`. `not_needed`: Of a whole task: its purpose is not needed any more. It stays as it
 * is, as with `skipped`. `redriven`: Of a whole task: another task has done it, which is named. It stays as it is,
 * as with `skipped`.
 */
export type SettledAs =
  | "done"
  | "undone"
  | "skipped"
  | "not_needed"
  | "redriven"
  | (string & {});

/** What a task type is disabled by, as it is shown. */
export type ShownAutoDisable = AutoDisable | null | { declared: AutoDisable | null; effective: AutoDisable | null };

/** Answer to a signal: 202. The same for each repetition. */
export interface SignalAnswer {
  /** When it was accepted. */
  received_at: string;
  /** The signal's name, which is that of the step that waits for it. */
  signal: string;
  /** Id of the task. */
  task_id: TaskId;
}

/** What is under way, counted. Ages are in whole seconds; a missing one: there is none. */
export interface StatusView {
  /** Tasks that have not ended. */
  tasks: TaskCountView[];
  /** Processes that were seen lately. */
  workers_alive: number;
  /** Processes that are lost. */
  workers_lost: number;
  /** Of the task that could be claimed for the longest time. */
  oldest_due_seconds?: number | null;
  /** Since the last change of the running task that has changed least lately. */
  oldest_running_seconds?: number | null;
  /** Of the oldest event that is not published. */
  oldest_unpublished_seconds?: number | null;
}

/** How the tasks stand that a step has submitted so far. */
export interface StepChildren {
  /** How many of them are in each state. A state that none is in is left out. */
  by_status: Record<string, number>;
  /** Name of the step. */
  step: string;
}

/** One step of a task type. */
export interface StepDecl {
  /** What keeps its attempts from something that is down. An undo never asks it. */
  breaker: NamedBreaker | null;
  /** What runs when it has given up. */
  fallback: FallbackDecl | null;
  /** Steps of one group run side by side; they share host and neighbourhood. */
  group: string | null;
  /** An attempt has to say that it is alive within each such time, or it has timed out; `None`: it need not. */
  heartbeat: string | null;
  /** Whether it takes a processor or much memory for itself: few of these run side by side in a process. */
  heavy: boolean;
  /** Where it runs. */
  host: Host;
  /** What it reads. */
  inputs: InputDecl[];
  /**
   * Whether its code, its undo's and its probe's, runs in processes of their own; `None`: in the process that runs
   * the task.
   */
  isolate: IsolateDecl | null;
  /** Who wrote its code. */
  kind: StepKind;
  /** What limits its attempts over all processes. An undo never asks it. */
  limit: Limit | null;
  /** Its function's name; unique within the type. */
  name: string;
  /** Its place in the order; unique within the type. */
  no: StepNo;
  /** What its giving up leads to. */
  on_exhausted: OnExhausted;
  /** What its probe's giving up leads to. */
  on_probe_failure: OnProbeFailure;
  /** Its output's type as written. */
  output: string;
  /** The probe's function name: it finds out how far an attempt in doubt came. */
  probe: string | null;
  /** How its probe is retried; `None`: it has none. */
  probe_retry: NamedPolicy | null;
  /** How it is retried. */
  retry: NamedPolicy;
  /** Bytes that its scratch files may take on a host; `None`: as many as there are. */
  scratch: string | null;
  /** Limit of one attempt; `None`: that of the policy, else that of the settings. */
  timeout: string | null;
  /** How it is undone. */
  undo: UndoDecl;
  /** How its undo is retried. */
  undo_retry: NamedPolicy;
  /** What it waits for; `None`: it runs code. */
  waits: WaitDecl | null;
  /** The condition's function name; the step is skipped where it says no. */
  when: string | null;
  /** How long it goes on where the database cannot be reached. */
  when_cut_off: WhenCutOff;
}

/**
 * How long the attempts at a step took that succeeded or failed, from the change that started one to the change
 * that ended it. What is part of the submission is not counted; and of many tasks, the attempts of some.
 */
export interface StepDurations {
  /** How often it was measured. */
  count: number;
  /** The longest of them. */
  max_ms: number;
  /** Half took no longer. */
  p50_ms: number;
  /** 95 of 100 took no longer. */
  p95_ms: number;
  /** 99 of 100 took no longer. */
  p99_ms: number;
  /** The task of the longest one. */
  slowest: TaskId;
  /** Name of the step. */
  step: string;
}

/**
 * Who wrote the step's code. `custom`: The declaration's author, as an async function. `built_in`: The engine; the
 * declaration says what, not how.
 */
export type StepKind =
  | "custom"
  | "built_in"
  | (string & {});

/** A step's number as its declaration gives it; steps run in ascending order. */
export type StepNo = number;

/** What a step has put out. */
export interface StepOutput {
  /** What it was. */
  output: any;
  /** Name of the step. */
  step: string;
}

/** How far the running attempt of a step, or of its undo, has come. A hint: it may be late, or missing. */
export interface StepProgress {
  /** When it said so. */
  at: string;
  /** How far it is, in units of the step's own. */
  done: number;
  /** Out of how much; 0 where the step does not know. */
  total: number;
  /** What it is at, where it says so: one line. */
  message?: string | null;
  /** 0 to 100, where the total is known. */
  percent?: number | null;
}

/**
 * Where a step stands. `pending`: Not started. `running`: An attempt is open under the current epoch. `waiting`:
 * Between two attempts, the next one due later; or for a timer, a signal or other tasks. `completed`: Its one
 * output is committed. `skipped`: Its condition said no. `failed`: It gave up. `in_doubt`: Started, outcome
 * unknown: its lease was lost, or the process shut down. `compensating`: Its undo is under way. `compensated`: Its
 * undo is done. `compensation_failed`: Its undo gave up. `resolved`: A person settled its undo by hand.
 */
export type StepStatus =
  | "pending"
  | "running"
  | "waiting"
  | "completed"
  | "skipped"
  | "failed"
  | "in_doubt"
  | "compensating"
  | "compensated"
  | "compensation_failed"
  | "resolved"
  | (string & {});

/** A step as a client sees it. */
export interface StepView {
  /** Forward tries so far. */
  attempts: Attempt;
  /** Name of the step. */
  name: string;
  /** Number of the step. */
  no: StepNo;
  /** State of the step. */
  status: StepStatus;
  /** Undo tries so far. */
  undo_attempts: Attempt;
  /** Its last error. */
  error?: string | null;
  /** How far its running attempt says it is, where it says anything and that is known here. */
  progress?: StepProgress | null;
}

/** An expression that begins as what was typed. */
export interface Suggestion {
  /** What the last term of it is. */
  about: string;
  /** The whole expression. */
  q: string;
}

/** Body of `POST /api/task-types/{type}/disable` and `/enable`. */
export interface SwitchRequest {
  /** Why: what clients are told whose submissions are refused. */
  note: string;
  /** Who decides, for the audit. */
  actor?: string | null;
}

/** Whether a task type takes submissions. Times are RFC 3339 in UTC. */
export interface SwitchView {
  /** The type's declared name. */
  type: string;
  /** Who disabled it, or enabled it last. */
  by?: string | null;
  /** Since when it takes none; missing: it takes them. */
  disabled_since?: string | null;
  /** The probe that is under way. */
  probe?: TaskId | null;
  /** When the next submission is taken as a probe; missing on a disabled type: a person has to enable it. */
  probe_from?: string | null;
  /** Why; of an enabled type, why it was enabled last. */
  reason?: string | null;
}

/** Number of tasks of a queue in a state. */
export interface TaskCountView {
  /** Number of tasks. */
  count: number;
  /** The queue on which they were offered last. */
  queue: string;
  /** The state. */
  status: TaskStatus;
}

/** A submitted run of a task type. A UUID version 7, so that ids sort by the time of their submission. */
export type TaskId = string;

/**
 * Where a task stands. `submitted`: Accepted; the next step is to run in an API process. `dispatched`: It waits
 * for a worker of its queue. `running`: A host holds the lease and runs forward steps. `waiting`: Waits by itself:
 * for a retry, a breaker, a limit, a timer, a signal, tasks that it has submitted, or a worker that knows its
 * version. `completed`: Every step that was not skipped completed. Terminal. `compensating`: It is being undone,
 * in reverse. No forward step ever runs again. `compensation_failed`: An undo gave up: parked for a person.
 * `failed`: It did not succeed, and nothing is left to undo (or the policy said to leave it). Terminal.
 * `cancelled`: It was cancelled and undone. Terminal. `dead_lettered`: It gave up going forward, and its policy
 * parks it for a person. `resolved`: A person settled it by hand, with a note. Terminal.
 */
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

/** One line of a list of tasks. */
export interface TaskSummary {
  /** When it was submitted. */
  created_at: string;
  /** State of the task. */
  status: TaskStatus;
  /** Id of the task. */
  task_id: TaskId;
  /** Its type's declared name. */
  task_type: string;
  /** When it was last changed. */
  updated_at: string;
  /** When it came to its terminal state. */
  finished_at?: string | null;
  /** What it was labelled with when it was submitted. */
  labels?: Labels;
}

/** A task type as it is listed. */
export interface TaskTypeView {
  /** When failures make the type take no more submissions; `None`: never, unless the settings say so. */
  auto_disable: ShownAutoDisable;
  /** Whether a client may cancel it. */
  cancellable: boolean;
  /** Digest of what a task in flight depends on. */
  definition_hash: string;
  /** How its tasks share what there is. */
  flow: FlowDecl;
  /** The names of the labels that it makes of each request. */
  labels: string[];
  /** How long a claim holds without a heartbeat; `None`: that of the settings. */
  lease: string | null;
  /** Take-backs of a lost task, without progress between them, before it is undone instead. */
  max_recoveries: number;
  /** Its name as declared, `CreateZipFromFiles`. */
  name: string;
  /** What happens when a host is lost while the task goes forward. An undo always continues on another host. */
  on_lost: OnLost;
  /** What an undo that gave up leads to. */
  on_undo_failure: OnUndoFailure;
  /** The queue its worker steps are dispatched on; the API's is `{queue}.api`. */
  queue: string;
  /** The request's type as written. */
  request: string;
  /** The response's type as written. */
  response: string;
  /** In ascending order of their numbers. */
  steps: StepDecl[];
  /** The address that takes its requests. */
  submit_to: string;
  /** Whether it takes submissions. */
  switch: SwitchView;
  /** Deadline since submit, waits included, undo not. */
  timeout: string | null;
  /** Grows when running tasks could not go on under the new declaration. */
  version: number;
  /**
   * JSON schemas of the bodies of the signals that its steps wait for, by the name of the step; without those of
   * types that have none.
   */
  signals?: Record<string, any>;
}

/** A task as `GET /api/tasks/{id}` shows it. */
export interface TaskView {
  /** Whether a cancel was accepted. */
  cancel_requested: boolean;
  /** When it was submitted. */
  created_at: string;
  /** Completed steps of all steps. */
  progress: Progress;
  /** Times it was taken back from a lost host since it last made progress. */
  recovery_attempts: number;
  /** Whether it ended with effects that were not undone. */
  residue: boolean;
  /** Grows with every change; the ETag is made of it. */
  revision: number;
  /** State of the task. */
  status: TaskStatus;
  /** Steps in the order of the declaration. */
  steps: StepView[];
  /** Id of the task. */
  task_id: TaskId;
  /** Its type's declared name. */
  task_type: string;
  /** When it was last changed. */
  updated_at: string;
  /** Its type's version. */
  version: number;
  /** How the tasks stand that its steps have submitted, in the order of the steps. A step without any is left out. */
  children?: StepChildren[];
  /** When it will try again, where it is waiting. */
  due_at?: string | null;
  /** Why it did not complete. */
  failure?: FailureView | null;
  /** When it came to its terminal state. */
  finished_at?: string | null;
  /** What it was labelled with when it was submitted. */
  labels?: Labels;
  /** The task that has submitted it, where one has. */
  parent?: ParentView | null;
  /** The task that it runs again, where it does. */
  predecessor?: PredecessorView | null;
  /** The typed response, once completed. */
  response?: any;
  /** How a person has settled it, where one has. */
  settled?: Settled | null;
  /** The tasks that run it again, once it has ended: the last 20, the newest first. */
  successors?: TaskId[];
  /** The trace of the request that submitted it, where it has one: 32 hexadecimal digits. */
  trace_id?: string | null;
  /** What it waits for, where it is waiting. */
  waiting_for?: WaitReason | null;
}

/** The owner of a task. Every row and every object key carries it; without authentication there is one tenant. */
export type Tenant = string;

/**
 * How a turn of a process has ended: in the state in which its task rests, or without one. `completed`: The task
 * completed. `failed`: It has failed, and is undone. `cancelled`: It was cancelled, and is undone. `resolved`: A
 * person has settled it. `compensation_failed`: It is parked: an undo gave up. `dead_lettered`: It is parked: it
 * gave up going forward. `given_back`: It was given back: for another host, or until it is due. `lost`: Its lease
 * was lost. `store_down`: The database did not answer.
 */
export type TurnOutcome =
  | "completed"
  | "failed"
  | "cancelled"
  | "resolved"
  | "compensation_failed"
  | "dead_lettered"
  | "given_back"
  | "lost"
  | "store_down"
  | (string & {});

/** The tasks of a type that ended or were parked in a range of time, and their steps. */
export interface TypeDurations {
  /**
   * How many tasks ended, or were parked, in each state: a parked one counts each time it was found parked. A
   * state without any is left out.
   */
  ended: Record<string, number>;
  /** The same by the hour, the oldest first. Hours in which no task ended or was parked are left out. */
  hours: HourDurations[];
  /** Its steps, the one with the longest 95th percentile first. */
  steps: StepDurations[];
  /** When the last task ended that is counted, of all tenants; missing where no reconciler has counted any. */
  counted_until?: string | null;
  /** Names of the labels by whose values tasks are counted too, without their steps. */
  labels?: string[];
  /** Of 100 tasks that completed, how many took less time than the one that was asked for, rounded down. */
  slower_than?: number | null;
  /** How long those took that completed, from their submission; missing where none did. */
  tasks?: Percentiles | null;
  /** Of the label that was asked for: the values that tasks had in this time. */
  values?: string[];
}

/** How a step is undone. */
export type UndoDecl = { kind: "function"; name: string } | { kind: "built_in" } | { kind: "waived"; reason: string } | { kind: "pure" };

/** What an undo of the whole task would do now: answer of `GET /api/tasks/{id}/plan`. */
export interface UndoPlan {
  /** Steps that started and that no undo touches, the latest start first. */
  not_undone: NotUndone[];
  /** One after another; the undos of one stage go side by side. */
  stages: UndoStage[];
  /** State of the task. */
  status: TaskStatus;
  /** Id of the task. */
  task_id: TaskId;
  /** What would have to happen for the plan to be carried out, or why that can never be. */
  when: string;
}

/** Undos that go side by side. */
export interface UndoStage {
  /** The latest start first. */
  steps: PlannedUndo[];
  /** The parallel group, where the step is in one. */
  group?: string | null;
}

/** A step that would be undone. */
export interface UndoneStep {
  /** Of them those in which its undo has given up before. */
  gave_up: number;
  /** Of them those in which it is in doubt: it is not known how far it came. */
  in_doubt: number;
  /** Name of the step. */
  step: string;
  /** Its type's declared name. */
  task_type: string;
  /** Number of tasks in which it would be undone. */
  tasks: number;
  /** The function that undoes it, or `built-in`. */
  undo: string;
  /** Sums of the amounts in its outputs, by currency. */
  amounts?: Amount[];
}

/** A task for which an operation would do something else than for most of its type. */
export interface UnusualTask {
  /** How it differs, in words. */
  differs: string;
  /** The task. */
  task_id: TaskId;
}

/** What is saved. */
export interface ViewSpec {
  /** The search, as `GET /api/tasks?q=` takes it. It names no other view. */
  q: string;
  /** The columns that the page shows, as `labels,submitted`; missing: those that it shows anyway. */
  columns?: string | null;
}

/**
 * What a step waits for. Such a step runs no code of its own: it has no attempts, and while it waits its task
 * holds neither a slot nor a lease.
 */
export type WaitDecl = { for: "timer" } | { for: "signal"; optional: boolean } | { for: "tasks"; of: string | null };

/**
 * What a waiting task waits for. `retry`: The due time of a step's next attempt. `breaker`: An open circuit
 * breaker. `limit`: A limit of its next step, which other tasks use up. `concurrency`: A place among the tasks of
 * its type, or of its key. `debounce`: A time without another submission of its key. `timer`: A timer step.
 * `signal`: A signal from outside. `children`: The end of tasks that it has submitted. `version`: A worker that
 * can run this version of the type.
 */
export type WaitReason =
  | "retry"
  | "breaker"
  | "limit"
  | "concurrency"
  | "debounce"
  | "timer"
  | "signal"
  | "children"
  | "version"
  | (string & {});

/** The secrets with which webhooks of the caller's tenant are signed. */
export interface WebhookSecretsView {
  /**
   * `whsec_` and Base64. Each webhook is signed with all of them: there are several while the operator replaces
   * one.
   */
  secrets: string[];
}

/**
 * What happens to a running step of a worker that cannot reach the database. `stop`: It goes on until the lease of
 * its task is over, and is stopped then. `finish`: It goes on to its own time limit, though another host may run
 * it meanwhile: what it does twice is done once.
 */
export type WhenCutOff =
  | "stop"
  | "finish"
  | (string & {});

/** What a task is waiting for: answer of `GET /api/tasks/{id}/why`. */
export interface Why {
  /** Everything that it waits for, what matters most first. Never empty. */
  because: WhyReason[];
  /** What an operator can do about it: first what ends the first reason, where a call or a command does. */
  operator_can: OperatorMove[];
  /** State of the task. */
  status: TaskStatus;
  /** Id of the task. */
  task_id: TaskId;
  /** What blocks it, where it is parked. */
  cause?: Cause | null;
  /** The id of its group, where it is parked: others have failed for the same cause. */
  group?: string | null;
  /** The task that has submitted it, where one has. */
  parent?: ParentView | null;
}

/**
 * What a task waits for, for programs. A code never changes its meaning. `working`: A host holds the lease and
 * works on it. `host-lost`: The host that worked on it is lost; the reconciler will take it back. `cut-off`: The
 * host that worked on it was cut off from the database and keeps results: it goes on once it reaches the database
 * again. `reserved-for-recovery`: The host that worked on it is lost, and a reconciler has reserved it: it takes
 * it back within seconds. `due`: It sleeps until it is due: a retry, a timer, an undo, or other tasks of its key
 * that come. `outside`: It sleeps until something comes from outside. `tasks`: It waits until tasks that it has
 * submitted have ended, or are undone. `wake-lost`: The tasks that it has submitted have ended, and nothing has
 * woken it. `concurrency`: It waits for a place: as many tasks of its type or key are under way as may be.
 * `place-free`: There is a place for it, and nothing has woken it. `place-blocked`: There is a place, and an older
 * task of its key that has not started comes first. `replacing`: Tasks of its key are being undone to make room
 * for it. `unclaimed`: It was offered to hosts and none has claimed it yet, and nothing is known that keeps it
 * from being claimed. `unannounced`: It was accepted and is not offered to hosts yet. `backlog`: It was offered in
 * the lane of its queue that goes last, and nothing else keeps it from being claimed. `queue-paused`: An operator
 * has paused its queue. `workers-paused`: An operator has paused the processes that take it. `no-host`: No process
 * that is known to run serves its queue and knows its type in its version and definition. `stopping`: No process
 * that is known to run takes it: those that took it were stopped. `other-host-kind`: Its next step runs in
 * processes of the API, and none runs that takes it. `hosts-silent`: The processes that take it have not refreshed
 * their rows in time, and the database was there. `database-was-away`: The database was away a moment ago: what is
 * known of other processes is older than that. `jammed`: As much abandoned code blocks the threads of each process
 * that takes it as it has slots: it takes nothing more. `no-slot`: No process that takes it has a free slot.
 * `beside`: It has lost consecutive hosts: it is run among few tasks, and no process has few enough. `heavy`: Its
 * next step is heavy, and each process that takes it runs as many heavy steps as it may. `broker`: The processes
 * that could run it cannot fetch from the broker. `consumer`: They may not use the consumer of its queue: it is
 * missing or forbidden. `limit`: Other attempts use up the limit of its next step. `limit-closed`: An operator has
 * set the limit of its next step so low that a day passes between two starts. `breaker`: The circuit breaker of
 * its next step is open, or lets a single attempt through. `breaker-unknown`: It sleeps for a circuit breaker, and
 * the hints do not say how that stands. `lost-counts`: It has lost as many consecutive hosts as its type
 * tolerates: one more ends its recovery. It delays nothing. `version`: The program that answers cannot run it:
 * another version of its type. `definition`: The program that answers knows its version in another definition.
 * `unreadable`: Its rows cannot be read: a host parks it. `newer-program`: A newer program has written it, and
 * this one cannot read it. `deadline`: Its deadline comes before what it waits for. It holds nothing up.
 * `cancel-requested`: A cancel was accepted. `parked`: It waits for a person. `ended`: It has ended.
 */
export type WhyCode =
  | "working"
  | "host-lost"
  | "cut-off"
  | "reserved-for-recovery"
  | "due"
  | "outside"
  | "tasks"
  | "wake-lost"
  | "concurrency"
  | "place-free"
  | "place-blocked"
  | "replacing"
  | "unclaimed"
  | "unannounced"
  | "backlog"
  | "queue-paused"
  | "workers-paused"
  | "no-host"
  | "stopping"
  | "other-host-kind"
  | "hosts-silent"
  | "database-was-away"
  | "jammed"
  | "no-slot"
  | "beside"
  | "heavy"
  | "broker"
  | "consumer"
  | "limit"
  | "limit-closed"
  | "breaker"
  | "breaker-unknown"
  | "lost-counts"
  | "version"
  | "definition"
  | "unreadable"
  | "newer-program"
  | "deadline"
  | "cancel-requested"
  | "parked"
  | "ended"
  | (string & {});

/** One thing that a task waits for. */
export interface WhyReason {
  /** For programs. */
  code: WhyCode;
  /** For people: what it waits for, and what to look at. */
  detail: string;
  /** Who holds the lease. */
  owner?: string | null;
  /** What has become of that process, where it has said anything of itself. Its lease alone decides. */
  owner_state?: WorkerState | null;
  /** The queue on which it was offered. */
  queue?: string | null;
  /** The steps concerned. */
  steps?: string[];
  /**
   * Those of the tasks that it has submitted for which a person has to decide, else the first that has not ended;
   * or those that hold the places that it waits for, or come first: three at most.
   */
  tasks?: TaskId[];
  /** Until when, where that is known. */
  until?: string | null;
  /** What a waiting task waits for. */
  waiting_for?: WaitReason | null;
}

/** Answer of `GET /api/workers/{worker_id}`: a process, what it runs, and what it ran last. */
export interface WorkerDetails {
  /** How many of these turns had a failed attempt. */
  failures: FailureShare;
  /**
   * The same of the other processes that are alive, over those of their last turns whose tasks are of the same
   * types.
   */
  neighbours: NeighboursView;
  /**
   * Its last turns that have ended, at most a hundred, the last one first. A task that was given back and taken
   * again is there more than once.
   */
  recent: RecentTurnView[];
  /** The tasks that it ran when it was seen last; of many the first hundred. */
  running: RunningTaskView[];
  /** The process, as the list has it. */
  worker: WorkerView;
}

/**
 * What has become of a process, as far as the database knows. `alive`: It was seen lately. `lost`: It was not seen
 * for too long, and did not say that it stops. `stopped`: It said that it stops.
 */
export type WorkerState =
  | "alive"
  | "lost"
  | "stopped"
  | (string & {});

/** A task type that a process can run. */
export interface WorkerType {
  /** Digest of its declaration. */
  definition: string;
  /** Declared name. */
  name: string;
  /** Version. */
  version: number;
}

/** A process, as it says of itself. */
export interface WorkerView {
  /** Runs of code that was abandoned and blocks its thread yet. */
  abandoned_count: number;
  /** Tasks at a time. */
  concurrency: number;
  /** Heavy steps that it runs at a time. */
  heavy: number;
  /** How many it ran when it was seen last. */
  heavy_count: number;
  /** Names this start of it, as leases and the audit do. */
  id: string;
  /** The machine's name. */
  machine: string;
  /** Version of the program. */
  program: string;
  /** The queues that it takes tasks from; none: it takes none. */
  queues: string[];
  /** `worker`, `api`, `reconciler`, or `dev`. */
  role: string;
  /** Which; of many the first hundred. */
  running: TaskId[];
  /** How many it ran when it was seen last. */
  running_count: number;
  /** When it was seen last. */
  seen_at: string;
  /** When it was seen first. */
  started_at: string;
  /** What has become of it. */
  state: WorkerState;
  /** What it can run. */
  task_types: WorkerType[];
  /**
   * The queues that it could not fetch from when it was seen last; of many the first hundred. Tasks of them are
   * found by polling.
   */
  fetch_errors?: FetchErrorView[];
  /** Results that it keeps on its disk until the database takes them, of a worker on PostgreSQL. */
  kept?: KeptView | null;
  /** The last pass of a reconciler. */
  last_pass?: PassView | null;
  /** Bytes of memory that the process held when it was seen last; missing: its system has no such figure. */
  memory_bytes?: number | null;
  /** Since when it is paused, and why: it takes no tasks. Missing: it is not. */
  paused?: PauseView | null;
  /**
   * Permits of limits that its attempts held then, by limit, and by tenant and label where it is one for each; of
   * many the first hundred.
   */
  permits?: Record<string, number>;
  /** When it said that it stops. */
  stopped_at?: string | null;
}

/** Answer of `GET /api/workers`. */
export interface WorkersView {
  /** What is under way. */
  status: StatusView;
  /** The processes, the last seen first; at most 1,000. */
  workers: WorkerView[];
}

export interface AlertsCalls {
  /** Read the secrets that sign alerts. The newest first. Needs the role `admin` in the tenant `default`. */
  secrets(options?: CallOptions): Promise<WebhookSecretsView>;
  /**
   * List alerts of the last week, the last changed first. All of them. Needs the role `admin` in the tenant
   * `default`.
   */
  list(options?: CallOptions): AsyncGenerator<AlertView, void, undefined>;
  /**
   * Send an alert to see whether it arrives. It is sent. Needs the role `admin` in the tenant `default`.
   * `Problem`: `alerts-off`.
   */
  test(options?: CallOptions): Promise<AlertView>;
}

export interface BreakersCalls {
  /**
   * List the breakers, and how each stands. Those of the task types. Without a Redis each process has its own:
   * then those of all processes that are alive, as of their last refresh. Needs the role `admin` in the tenant
   * `default`.
   */
  list(options?: CallOptions): AsyncGenerator<BreakerView, void, undefined>;
  /**
   * Close a breaker that is open. Attempts start. Without a Redis the `processes` of the answer close theirs with
   * their next refresh, within 15 seconds. A task that sleeps for it starts at its due time. Needs the role
   * `admin` in the tenant `default`. `Problem`: `no-such-breaker`.
   */
  close(name: string, body: BreakerRequest, options?: CallOptions): Promise<BreakerView>;
}

export interface BulkCalls {
  /** List bulk operations of the last 30 days, the last started first. All of them. Needs the role `read`. */
  list(options?: CallOptions): AsyncGenerator<BulkView, void, undefined>;
  /**
   * Redrive, resolve, cancel or run again many tasks. With `preview`: which tasks it would be for; nothing has
   * changed. Started: API processes execute it. Needs the role `operate`. `Problem`: `no-such-view`.
   */
  start(body: BulkRequest, options?: CallOptions): Promise<BulkPreview | BulkView>;
  /** Look at a bulk operation. How it stands. Needs the role `read`. `Problem`: `no-such-bulk-operation`. */
  show(bulkId: string, options?: CallOptions): Promise<BulkView>;
  /**
   * Pause a bulk operation until a person resumes it. How it stands: tasks that were begun are finished. One that
   * is paused, is being stopped or has ended stays as it is. Needs the role `operate`. `Problem`:
   * `no-such-bulk-operation`.
   */
  pause(bulkId: string, options?: CallOptions): Promise<BulkView>;
  /**
   * Let a paused bulk operation go on; its failures are counted anew. How it stands. One that is not paused stays
   * as it is. Needs the role `operate`. `Problem`: `no-such-bulk-operation`.
   */
  resume(bulkId: string, options?: CallOptions): Promise<BulkView>;
  /**
   * Stop a bulk operation; the tasks that are left stay as they are. How it stands: tasks that were begun are
   * finished. One that has ended stays as it is. Needs the role `operate`. `Problem`: `no-such-bulk-operation`.
   */
  stop(bulkId: string, options?: CallOptions): Promise<BulkView>;
  /**
   * List what became of each task of a bulk operation, and how it stands now. A page of the first 100,000, in the
   * order in which they were decided on; it is the last one without `next_cursor`. Needs the role `read`.
   * `Problem`: `no-such-bulk-operation`.
   */
  tasks(bulkId: string, query?: { limit?: number }, options?: CallOptions): AsyncGenerator<BulkTask, void, undefined>;
}

export interface CallerCalls {
  /** Show who sends the request: its tenant, its name, its role. The caller. Needs the role `read`. */
  show(options?: CallOptions): Promise<CallerView>;
}

export interface DeadLettersCalls {
  /** List parked tasks, the newest first. A page; without `next_cursor` the last one. Needs the role `read`. */
  list(
    query?: { type?: string; status?: ("compensation_failed" | "dead_lettered")[]; parked_since?: string | Date; order?: "newest" | "longest_parked"; limit?: number },
    options?: CallOptions,
  ): AsyncGenerator<DeadLetter, void, undefined>;
  /** Count parked tasks, or failed ones, by cause. The groups, the largest first. Needs the role `read`. */
  groups(
    query?: { type?: string; status?: ("compensation_failed" | "failed" | "dead_lettered")[]; label?: string[]; since?: string | Date; with?: "decisions" },
    options?: CallOptions,
  ): Promise<DeadLetterGroups>;
  /**
   * Look at a parked task: its request, its attempts with their errors, who ran them. All that there is to know of
   * it. Needs the role `read`. `Problem`: `no-such-task`, `not-parked`.
   */
  show(taskId: string, options?: CallOptions): Promise<DeadLetterView>;
  /**
   * List messages that no host can read, the last kept first. The last 200. Needs the role `admin` in the tenant
   * `default`.
   */
  poison(options?: CallOptions): Promise<PoisonMessages>;
  /**
   * Remove a message that no host can read. It is gone. Needs the role `admin` in the tenant `default`. `Problem`:
   * `no-such-poison-message`.
   */
  removePoison(poisonId: string, options?: CallOptions): Promise<void>;
}

export interface EffectsCalls {
  /**
   * List tasks at rest that have done something outside which nothing has taken back. A page, the newest tasks
   * first; it may be short or empty, and is the last one without `next_cursor`. Needs the role `read`.
   */
  list(
    query?: { type?: string; kind?: ("in_doubt" | "undo_failed" | "parked" | "left" | "waived")[]; limit?: number },
    options?: CallOptions,
  ): AsyncGenerator<OpenEffects, void, undefined>;
  /**
   * Count open effects by type, step, kind and service, with the sums of their amounts. Of the newest 1,000 parked
   * tasks, and of the newest 2,000 that have ended, of which the rows of 1,000 are read. Needs the role `read`.
   */
  sums(query?: { type?: string }, options?: CallOptions): Promise<OpenEffectSums>;
}

export interface GatesCalls {
  /**
   * List what holds tasks back because it was paused, disabled, set by hand, or is open after failures. All of it,
   * each with the command that opens it. Needs the role `admin` in the tenant `default`.
   */
  list(options?: CallOptions): AsyncGenerator<GateView, void, undefined>;
}

export interface HistoryCalls {
  /**
   * Show how the installation was doing in the last hour. As the process that answers has looked at it since it
   * started. Needs the role `admin` in the tenant `default`.
   */
  show(options?: CallOptions): Promise<HistoryView>;
}

export interface KeysCalls {
  /**
   * List the API keys of the tenant, without their secrets; administrators of the default tenant see all. Those of
   * the tenant, or all. Needs the role `admin`.
   */
  list(options?: CallOptions): AsyncGenerator<KeyView, void, undefined>;
  /** Make an API key. The only answer that holds the key. Needs the role `admin`. */
  make(body: NewKeyRequest, options?: CallOptions): Promise<NewKey>;
  /** Revoke an API key. The key, revoked. Needs the role `admin`. `Problem`: `no-such-key`. */
  revoke(keyId: string, options?: CallOptions): Promise<KeyView>;
}

export interface LimitsCalls {
  /**
   * List the limits of steps, and what is in use of them. All of them. Needs the role `admin` in the tenant
   * `default`.
   */
  list(options?: CallOptions): AsyncGenerator<LimitView, void, undefined>;
  /**
   * Set the values of a limit in place of those that are declared. They hold within a few seconds, in all
   * processes. Needs the role `admin` in the tenant `default`. `Problem`: `no-such-limit`.
   */
  set(name: string, body: SetLimitRequest, options?: CallOptions): Promise<LimitView>;
  /**
   * Let a limit hold again as it is declared. It holds as it is declared. Needs the role `admin` in the tenant
   * `default`. `Problem`: `no-such-limit`.
   */
  reset(name: string, body: ResetLimitRequest, options?: CallOptions): Promise<LimitView>;
}

export interface QueuesCalls {
  /**
   * List the queues, what waits on them, and which are paused. All of them. Needs the role `admin` in the tenant
   * `default`.
   */
  list(options?: CallOptions): AsyncGenerator<QueueView, void, undefined>;
  /**
   * Claim no more tasks of a queue, in any process. Within a few seconds no task of it is claimed. What runs goes
   * on. Needs the role `admin` in the tenant `default`. `Problem`: `no-such-queue`.
   */
  pause(name: string, body: QueueRequest, options?: CallOptions): Promise<QueueView>;
  /**
   * Claim tasks of a queue again. Tasks of it are claimed. Needs the role `admin` in the tenant `default`.
   * `Problem`: `no-such-queue`.
   */
  resume(name: string, body: QueueRequest, options?: CallOptions): Promise<QueueView>;
}

export interface SchedulesCalls {
  /** List schedules, by name. A page; without `next_cursor` the last one. Needs the role `read`. */
  list(
    query?: { type?: string; limit?: number },
    options?: CallOptions,
  ): AsyncGenerator<ScheduleView, void, undefined>;
  /**
   * Delete a schedule; its tasks stay. The schedule is deleted. Needs the role `operate`. `Problem`:
   * `no-such-schedule`, `schedule-declared`.
   */
  delete(name: string, options?: CallOptions): Promise<void>;
  /** Show a schedule. The schedule. Needs the role `read`. `Problem`: `no-such-schedule`. */
  show(name: string, query?: { next?: number }, options?: CallOptions): Promise<ScheduleView>;
  /**
   * Make or change a schedule. The schedule is changed. The schedule is made. Needs the role `operate`. `Problem`:
   * `schedule-declared`.
   */
  set(name: string, body: ScheduleSpec, options?: CallOptions): Promise<ScheduleView>;
  /** Pause a schedule. The schedule is paused. Needs the role `operate`. `Problem`: `no-such-schedule`. */
  pause(name: string, options?: CallOptions): Promise<ScheduleView>;
  /** Let a paused schedule go on. The schedule goes on. Needs the role `operate`. `Problem`: `no-such-schedule`. */
  resume(name: string, options?: CallOptions): Promise<ScheduleView>;
  /**
   * Submit a task of a schedule now. The task is accepted. Needs the role `operate`. `Problem`:
   * `no-such-schedule`, `type-disabled`, `schedule-busy`, `too-many-at-once`.
   */
  run(name: string, options?: CallOptions): Promise<Accepted>;
}

export interface TasksCalls {
  /**
   * Complete a search: types, states, saved views, names and values of labels. At most 20, which may be none.
   * Needs the role `read`.
   */
  suggest(query?: { q?: string }, options?: CallOptions): AsyncGenerator<Suggestion, void, undefined>;
  /**
   * List tasks, the newest first, or those that a search finds. A page; without `next_cursor` the last one. Needs
   * the role `read`. `Problem`: `no-such-view`.
   */
  list(
    query?: { q?: string; type?: string; status?: ("submitted" | "dispatched" | "running" | "waiting" | "completed" | "compensating" | "compensation_failed" | "failed" | "cancelled" | "dead_lettered" | "resolved")[]; label?: string[]; since?: string | Date; until?: string | Date; failure_class?: "transient" | "permanent" | "rate_limited" | "timed_out" | "panicked" | "cancelled" | "deadline" | "in_doubt" | "lost" | "replaced" | "unreadable"; failure_text?: string; limit?: number },
    options?: CallOptions,
  ): AsyncGenerator<TaskSummary, void, undefined>;
  /**
   * Cancel a task: what it has done is undone. It had been cancelled before. It will be undone. Needs the role
   * `submit`. `Problem`: `no-such-task`, `already-completed`, `already-failed`, `being-undone`,
   * `already-resolved`, `parked`, `not-cancellable`.
   */
  cancel(taskId: string, options?: CallOptions): Promise<CancelAnswer>;
  /** Show a task, now or when it is at rest. The task. Needs the role `read`. `Problem`: `no-such-task`. */
  show(taskId: string, query?: { wait?: string }, options?: CallOptions): Promise<TaskView>;
  /**
   * Show a task as it stood at an entry of its audit. The task behind the change that wrote the entry, without
   * what was said of progress and without its children and successors. Needs the role `read`. `Problem`:
   * `no-such-task`, `no-such-entry`.
   */
  at(taskId: string, query?: { seq?: number }, options?: CallOptions): Promise<TaskView>;
  /**
   * Show everything that happened to a task. Entries and attempts, in order. Needs the role `read`. `Problem`:
   * `no-such-task`.
   */
  audit(taskId: string, options?: CallOptions): Promise<AuditTrail>;
  /**
   * Check that the audit of a task is as it was written. Whether each row is bound to the one before it. Needs the
   * role `read`. `Problem`: `no-such-task`.
   */
  chain(taskId: string, options?: CallOptions): Promise<ChainView>;
  /**
   * List the tasks that a task has submitted, by step and place. A page; without `next_cursor` the last one. Needs
   * the role `read`. `Problem`: `no-such-task`.
   */
  children(
    taskId: string,
    query?: { step?: string; status?: ("submitted" | "dispatched" | "running" | "waiting" | "completed" | "compensating" | "compensation_failed" | "failed" | "cancelled" | "dead_lettered" | "resolved")[]; limit?: number },
    options?: CallOptions,
  ): AsyncGenerator<ChildSummary, void, undefined>;
  /**
   * Show what the steps of a task have logged, also while they run. Lines in the order in which they were written;
   * `cursor` is for those behind them. Needs the role `read`. `Problem`: `no-such-task`.
   */
  log(taskId: string, query?: { limit?: number; cursor?: string }, options?: CallOptions): Promise<LogPage>;
  /**
   * Show what was handed in with a task, and what its steps have put out. The request and the outputs. Needs the
   * role `read`. `Problem`: `no-such-task`.
   */
  payloads(taskId: string, options?: CallOptions): Promise<Payloads>;
  /**
   * Show what an undo of a task would do now. The undos, stage by stage. Needs the role `read`. `Problem`:
   * `no-such-task`.
   */
  plan(taskId: string, options?: CallOptions): Promise<UndoPlan>;
  /**
   * Set how many lost hosts count against a task. What counts now. Needs the role `operate`. `Problem`:
   * `no-such-task`, `already-ended`.
   */
  recoveries(taskId: string, body: RecoveriesRequest, options?: CallOptions): Promise<RecoveriesAnswer>;
  /**
   * Settle a parked task, or a step of it, by hand. What waits for a decision still, and what will be undone.
   * Needs the role `operate`. `Problem`: `no-such-task`, `no-such-step`, `already-resolved`, `not-parked`,
   * `not-settleable`.
   */
  resolve(taskId: string, body: ResolveRequest, options?: CallOptions): Promise<OperatorAnswer>;
  /**
   * Let a parked task go on. What will be undone. Needs the role `operate`. `Problem`: `no-such-task`,
   * `already-resolved`, `not-parked`, `no-way-forward`, `request-not-changeable`.
   */
  retry(taskId: string, body: RetryRequest, options?: CallOptions): Promise<OperatorAnswer>;
  /**
   * Run a task that has ended again, as a new task. The new task is accepted. Needs the role `operate`. `Problem`:
   * `no-such-task`, `no-such-step`, `in-progress`, `not-ended`, `declaration-changed`, `effects-undone`,
   * `step-not-completed`, `scratch-read`, `tasks-submitted`, `payload-erased`, `files-gone`, `type-disabled`.
   */
  runAgain(taskId: string, body: RunAgainRequest, options?: CallOptions & { key?: string }): Promise<Accepted>;
  /**
   * Answer a step that waits for a signal. The signal is accepted; the same for each repetition. Needs the role
   * `submit`. `Problem`: `no-such-task`, `no-such-signal`, `signal-too-late`, `signal-taken`.
   */
  signal(taskId: string, name: string, body: any, options?: CallOptions): Promise<SignalAnswer>;
  /** Show how the webhooks of a task stand. All of them. Needs the role `read`. `Problem`: `no-such-task`. */
  webhooks(taskId: string, options?: CallOptions): AsyncGenerator<DeliveryView, void, undefined>;
  /**
   * Send a webhook of a task again. It is sent again. Needs the role `operate`. `Problem`: `no-such-task`,
   * `no-such-webhook`.
   */
  sendWebhook(taskId: string, webhook: string, options?: CallOptions): Promise<DeliveryView>;
  /**
   * Show what a task waits for, and what an operator can do. The reasons, what matters most first. Needs the role
   * `read`. `Problem`: `no-such-task`.
   */
  why(taskId: string, options?: CallOptions): Promise<Why>;
}

export interface TypesCalls {
  /** List the declarations that this process knows. All of them. Needs the role `read`. */
  list(options?: CallOptions): AsyncGenerator<TaskTypeView, void, undefined>;
  /**
   * Take no more submissions of a type. The type takes none. Needs the role `admin` in the tenant `default`.
   * `Problem`: `no-such-task-type`.
   */
  disable(type: string, body: SwitchRequest, options?: CallOptions): Promise<SwitchView>;
  /**
   * Look at how long the tasks of a type and their steps took, by the hour. Of the last 30 days at most. Needs the
   * role `read`. `Problem`: `no-such-task-type`.
   */
  durations(
    type: string,
    query?: { since?: string | Date; until?: string | Date; took_ms?: number; label?: string },
    options?: CallOptions,
  ): Promise<TypeDurations>;
  /**
   * Take submissions of a type again. The type takes them. Needs the role `admin` in the tenant `default`.
   * `Problem`: `no-such-task-type`.
   */
  enable(type: string, body: SwitchRequest, options?: CallOptions): Promise<SwitchView>;
}

export interface ViewsCalls {
  /** List the saved views of the list of tasks, by name. All of them, at most 50. Needs the role `read`. */
  list(options?: CallOptions): AsyncGenerator<SavedView, void, undefined>;
  /** Delete a saved view; the tasks stay. It is deleted. Needs the role `operate`. `Problem`: `no-such-view`. */
  delete(name: string, options?: CallOptions): Promise<void>;
  /** Save a search under a name, for all who see these tasks. It is saved. Needs the role `operate`. */
  set(name: string, body: ViewSpec, options?: CallOptions): Promise<SavedView>;
}

export interface WebhookSecretsCalls {
  /**
   * Show the secrets that sign the webhooks of the caller's tenant. Each webhook is signed with all of them. Needs
   * the role `operate`.
   */
  show(options?: CallOptions): Promise<WebhookSecretsView>;
}

export interface WorkersCalls {
  /**
   * Show what is under way, and the processes. The processes, the last seen first. Needs the role `admin` in the
   * tenant `default`.
   */
  list(query?: { state?: "alive" | "lost" | "stopped" }, options?: CallOptions): Promise<WorkersView>;
  /**
   * Let the processes of a machine take no more tasks, until they are resumed. Within a few seconds they claim no
   * task. What runs there goes on. Needs the role `admin` in the tenant `default`. `Problem`: `no-such-workers`.
   */
  pause(machine: string, body: PauseWorkersRequest, options?: CallOptions): Promise<MachineView>;
  /**
   * Let the processes of a machine take tasks again. They claim tasks. Needs the role `admin` in the tenant
   * `default`. `Problem`: `no-such-workers`.
   */
  resume(machine: string, body: PauseWorkersRequest, options?: CallOptions): Promise<MachineView>;
  /**
   * Look at a process: what it runs, what it ran last, and how often attempts failed there and elsewhere. The
   * process, as it was seen last. Needs the role `admin` in the tenant `default`. `Problem`: `no-such-workers`.
   */
  show(workerId: string, options?: CallOptions): Promise<WorkerDetails>;
}

/** The operations of the API, grouped as the commands of the program are. */
export interface Operations {
  readonly alerts: AlertsCalls;
  readonly breakers: BreakersCalls;
  readonly bulk: BulkCalls;
  readonly caller: CallerCalls;
  readonly deadLetters: DeadLettersCalls;
  readonly effects: EffectsCalls;
  readonly gates: GatesCalls;
  readonly history: HistoryCalls;
  readonly keys: KeysCalls;
  readonly limits: LimitsCalls;
  readonly queues: QueuesCalls;
  readonly schedules: SchedulesCalls;
  readonly tasks: TasksCalls;
  readonly types: TypesCalls;
  readonly views: ViewsCalls;
  readonly webhookSecrets: WebhookSecretsCalls;
  readonly workers: WorkersCalls;
}
