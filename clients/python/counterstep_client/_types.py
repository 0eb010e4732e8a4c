# Generated from docs/openapi.json by a test; CONTRIBUTING.md says how. Do not edit.
"""Bodies of the HTTP interface, with the keys of the JSON. Times are texts of RFC 3339 in UTC.

A later version of the API may add keys, and words to a `Literal`.
"""

from __future__ import annotations

from typing import Any, Dict, List, Literal, Optional, TypedDict, Union

#: What an alert is about. `dead_lettered`: Tasks gave up, and are parked as their policy says.
#: `compensation_failed`: The undo of tasks has given up. `quarantined`: Tasks cannot be read. `type_disabled`: A
#: task type was disabled, since its tasks fail. `breaker_open`: A breaker has opened: a dependency does not
#: answer. `spool_growing`: A worker that cannot reach the database keeps more and more results on its disk.
#: `test`: A person looks whether alerts arrive.
AlertEvent = Literal["dead_lettered", "compensation_failed", "quarantined", "type_disabled", "breaker_open", "spool_growing", "test"]

#: One try of a step in one direction, from 1. 0 means "never tried".
Attempt = int

#: Position of an audit entry within its task, from 1, without gaps.
AuditSeq = int

#: The shape of the delays between attempts. `constant`: Every delay is the base delay. `linear`: The n-th delay is
#: n times the base delay. `exponential`: Every delay is twice the one before.
Backoff = Literal["constant", "linear", "exponential"]

#: What becomes of a task beyond those that may be under way. `wait`: It waits until one of them is at rest.
#: `replace`: The older ones are cancelled for it. `refuse`: It is not accepted.
Beyond = Literal["wait", "replace", "refuse"]

#: How a breaker stands. `closed`: Attempts go through. `open`: They are kept back. `half_open`: One of them tries.
BreakerStanding = Literal["closed", "open", "half_open"]

#: What a bulk operation does with each of its tasks. `redrive`: A parked task goes on, with its retries anew:
#: forward after a dead letter, backward after an undo that gave up. `resolve`: A parked task is settled by hand,
#: and ends as resolved. `cancel`: A task that has not ended, and is not parked, is cancelled. `run-again`: A task
#: that has ended runs again, as a new task.
BulkAction = Literal["redrive", "resolve", "cancel", "run-again"]

#: What became of a task in an operation. `done`: The operation was carried out. `failed`: It could not be carried
#: out. `skipped`: The task was modified concurrently before its turn, and left alone. `already_run_again`: The
#: task had run again before its turn, and was left alone.
BulkOutcome = Literal["done", "failed", "skipped", "already_run_again"]

#: How an operation stands. `running`: API processes execute it. `paused`: It has paused, or was paused; tasks that
#: were begun are finished. `stopping`: It was stopped, and tasks that were begun are finished. `stopped`: It was
#: stopped; the tasks that are left are as they were. `done`: All of its tasks have been looked at.
BulkStatus = Literal["running", "paused", "stopping", "stopped", "done"]

#: What a cancel leads to. `nothing-had-run`: No step had effects: it is cancelled. `undoing`: No host is running
#: it: the undo starts at once. `stopping`: A host is running it: its step is told, then the undo starts.
#: `already-cancelled`: It had been cancelled before.
CancelOutcome = Literal["nothing-had-run", "undoing", "stopping", "already-cancelled"]

#: Which way a task went when it failed. `forward`: A step, or what belongs to the task as a whole while it goes
#: forward. `undo`: An undo. `unknown`: An older program wrote the failure: nothing is known but its step, class
#: and text.
CauseSide = Literal["forward", "undo", "unknown"]

#: Names one durable change: the task's row, its row in the journal, and the attempts and outbox rows that it wrote
#: all carry it. It is ours and not the database's transaction id, because SQLite has none.
ChangeId = str

#: How the delivery of a webhook stands. `pending`: It is sent, or sent again, when it is due. `delivered`: The
#: receiver answered 2xx. `failed`: It gave up.
DeliveryStatus = Literal["pending", "delivered", "failed"]

#: Which way an attempt goes. `forward`: Runs the step. `undo`: Runs its counter-step.
Direction = Literal["forward", "undo"]

#: The lease's fence number: grows by one with every claim and every take-back.
Epoch = int

#: What may be shut. `task-type`: A task type takes no submissions. `queue`: No task of a queue is claimed.
#: `workers`: The processes of a machine take no task. `limit`: A limit holds as a person has set it. `breaker`:
#: The breaker of a dependency is open, or lets one attempt through.
GateKind = Literal["task-type", "queue", "workers", "limit", "breaker"]

#: Where a step runs. `api`: In an API process. `worker`: In a worker process.
Host = Literal["api", "worker"]

#: Names with values, by which a task is found
Labels = Dict[str, str]

#: How much a line matters. `debug`: For the author. `info`: As expected. `warn`: Not as expected; the work
#: continues. `error`: Gone wrong.
LogLevel = Literal["debug", "info", "warn", "error"]

#: Which code of a step has logged. `run`: The step, or its fallback. `undo`: Its undo. `probe`: Its probe.
LogPart = Literal["run", "undo", "probe"]

#: What becomes of due times that no reconciler fired within the schedule's grace: all were away, say. Those within
#: it all fire. `fire_once`: Where none fires in time, the newest of them does, late; the others are skipped.
#: `skip`: They are skipped. `catch_up`: Each of them fires, the oldest first.
Misfire = Literal["fire_once", "skip", "catch_up"]

#: Why a step is not undone. `waived`: The declaration waives its undo, and says why. `pure`: It has no effects.
#: `undone`: It has been undone. `settled`: A person has settled it. `kept`: The task that this one runs again did
#: it. `ended`: Its task has ended with its effects, and nothing undoes a task that has ended.
NotUndoneKind = Literal["waived", "pure", "undone", "settled", "kept", "ended"]

#: What happens to a task when a step has used up its retries, or failed permanently. `compensate`: Undo everything
#: that started, in reverse. `fail`: End as Failed and leave what was done; the task says so with `residue`.
#: `dead_letter`: Park it for a person.
OnExhausted = Literal["compensate", "fail", "dead_letter"]

#: What happens to a task when the host that ran it forward is lost. `requeue`: Another host runs the step in doubt
#: again, up to `max_recoveries` consecutive times. `fail`: It is undone at once: its steps must not run twice
#: unasked.
OnLost = Literal["requeue", "fail"]

#: What happens when a probe has used up its retries: it is unknown whether the step happened. `park`: Park the
#: task for a person. `run_again`: Go on as without a probe: the step runs again, and its undo gets no output.
OnProbeFailure = Literal["park", "run_again"]

#: What happens when an undo has used up its retries. `stop`: Park the task at once. `continue`: Undo the other
#: steps first, then park it.
OnUndoFailure = Literal["stop", "continue"]

#: Why an effect is open. `in_doubt`: It may be there or not: the last attempt of its step did not tell.
#: `undo_failed`: Its step has done it and its undo gave up: it is there, unless an attempt of the undo did more
#: than it told. `parked`: Its task is parked: it is there until a person decides. `left`: Its task has ended and
#: it is there on purpose: by `on_exhausted = "fail"`, or because a person settled the task so. `waived`: It is
#: there, and stays: the declaration waives its undo.
OpenEffectKind = Literal["in_doubt", "undo_failed", "parked", "left", "waived"]

#: How an attempt ended. `succeeded`: Its result was committed. `failed`: It returned an error, panicked or timed
#: out. `in_doubt`: Its end is unknown: its lease was lost, or its process shut down. `cancelled`: Its token was
#: cancelled on request and it stopped.
Outcome = Literal["succeeded", "failed", "in_doubt", "cancelled"]

#: What becomes of a due time while the schedule's last task has not come to rest. `skip`: It is skipped; one that
#: comes only once waits. `queue`: It waits until that task rests, and those behind it with it. `allow`: It fires
#: all the same.
Overlap = Literal["skip", "queue", "allow"]

#: Why an operation is paused. `sample`: It has decided on its sample. `failures`: As many of its tasks have gone
#: wrong as `max_failures` says. `person`: A person has paused it.
PausedFor = Literal["sample", "failures", "person"]

#: Which tasks of a queue of workers come first. `high`: They wait beside the others, which they need not wait for.
#: `normal`: In the order of submissions. `low`: Behind the others, with what large tenants have waiting.
Priority = Literal["high", "normal", "low"]

#: What went wrong, for programs. A code never changes its meaning and is never reused. `malformed-body`: The body
#: is not what its content type says. `malformed-parameter`: A part of the path or query is not of its form.
#: `malformed-idempotency-key`: The `Idempotency-Key` header is not of its form. `malformed-authorization`: The
#: `Authorization` header is not of its form, or there are several. `unauthenticated`: The caller is not
#: authenticated: no credential, or one that is unknown, expired or revoked. `forbidden`: The caller's role does
#: not allow it. `host-not-allowed`: The `Host` is no name of this server. `cross-site`: A page of another site
#: sends what would change something. `no-such-route`: No such route. `no-such-task`: No task of this id.
#: `no-such-task-type`: No task type of this name. `no-such-result`: The task's response has no stored file of this
#: name. `no-such-link`: A link to a result that is not valid, has expired, or leads to nothing. `no-such-signal`:
#: No step of the task's type waits for a signal of this name. `no-such-step`: The task's type has no step of this
#: name. `no-such-schedule`: No schedule of this name. `no-such-webhook`: The task has no webhook of this id.
#: `no-such-key`: No API key of this id. `no-such-queue`: No queue of this name. `no-such-workers`: No process of
#: this id, or of this role on a machine of this name. `no-such-breaker`: No breaker of this name. `no-such-view`:
#: No saved view has this name. `no-such-limit`: No limit of this name. `no-such-bulk-operation`: The tenant has no
#: bulk operation of this id. `no-such-entry`: The audit of the task has no entry of this number.
#: `no-such-poison-message`: No poison message of this id. `method-not-allowed`: The route has other methods.
#: `slow-body`: The body arrived too slowly. `in-progress`: Same idempotency key, first request still in progress.
#: `already-completed`: Cancel: it had already completed. `already-failed`: Cancel: it had already failed.
#: `being-undone`: Cancel: it is being undone for another reason. `already-resolved`: Cancel: a person settled it.
#: `already-ended`: Recoveries: the task has ended. `parked`: Cancel: it waits for a person. `not-cancellable`:
#: Cancel: its type does not allow it. `not-parked`: Resolve, retry: it does not wait for a person.
#: `not-settleable`: Resolve: not like that, in the state of the task or the step. `no-way-forward`: Retry: it is
#: being undone, and no step runs forward again. `not-ended`: Run again: the task has not ended.
#: `declaration-changed`: Run again from a step: the program has another version or definition of its type.
#: `effects-undone`: Run again from a step: an earlier one was undone, or settled by hand. `step-not-completed`:
#: Run again from a step: an earlier one has not completed. `scratch-read`: Run again from a step: it, or a later
#: one, reads local files of an earlier one. `tasks-submitted`: Run again from a step: an earlier one has submitted
#: tasks. `payload-erased`: Run again: its request, or an output that is kept, was erased. `files-gone`: Run again:
#: files that it needs are not there any more. `alerts-off`: Alerts: no address is set to which they go.
#: `request-not-changeable`: Retry: a step has submitted tasks by the request, or the task is being undone.
#: `type-disabled`: Its type takes no submissions for now. `schedule-declared`: Schedule: a program declares it.
#: `schedule-busy`: Schedule: its last task runs, and it does not allow two. `not-completed`: The task has no
#: result yet, or never will. `signal-too-late`: Signal: the task no longer waits for it. `signal-taken`: Signal:
#: another body was accepted for it before. `group-renamed`: Bulk operation: an older program named the group, and
#: it has other ids now. `too-large`: Body or part over its limit. `address-too-long`: The address over its limit.
#: `unsupported-media-type`: Another content type is needed. `range-not-satisfiable`: Result: the file has no byte
#: of the range. `invalid-request`: The body can be read and breaks a rule. `invalid-output`: Resolve: the output
#: does not fit the step's declared type. `idempotency-mismatch`: Same idempotency key, other body.
#: `invalid-webhook`: A webhook may not go to this address. `webhooks-off`: This server sends no webhooks.
#: `links-off`: This server makes no links to results. `invalid-label`: A label that is not acceptable.
#: `invalid-file-name`: A file name that is not acceptable. `header-too-large`: A header is too large. `internal`:
#: Our fault; the log has the details. `too-many-requests`: The caller sends more requests than it may, or has as
#: many streams or uploads open as it may. `too-many-waiting`: More tasks of the type wait than may.
#: `too-many-at-once`: As many tasks of the type or key are under way as may be. `too-many-streams`: As many
#: streams are open as the process takes. `unavailable`: A server that is needed does not answer. `storage-full`:
#: The disk of the database or of the object store is full.
ProblemCode = Literal["malformed-body", "malformed-parameter", "malformed-idempotency-key", "malformed-authorization", "unauthenticated", "forbidden", "host-not-allowed", "cross-site", "no-such-route", "no-such-task", "no-such-task-type", "no-such-result", "no-such-link", "no-such-signal", "no-such-step", "no-such-schedule", "no-such-webhook", "no-such-key", "no-such-queue", "no-such-workers", "no-such-breaker", "no-such-view", "no-such-limit", "no-such-bulk-operation", "no-such-entry", "no-such-poison-message", "method-not-allowed", "slow-body", "in-progress", "already-completed", "already-failed", "being-undone", "already-resolved", "already-ended", "parked", "not-cancellable", "not-parked", "not-settleable", "no-way-forward", "not-ended", "declaration-changed", "effects-undone", "step-not-completed", "scratch-read", "tasks-submitted", "payload-erased", "files-gone", "alerts-off", "request-not-changeable", "type-disabled", "schedule-declared", "schedule-busy", "not-completed", "signal-too-late", "signal-taken", "group-renamed", "too-large", "address-too-long", "unsupported-media-type", "range-not-satisfiable", "invalid-request", "invalid-output", "idempotency-mismatch", "invalid-webhook", "webhooks-off", "links-off", "invalid-label", "invalid-file-name", "header-too-large", "internal", "too-many-requests", "too-many-waiting", "too-many-at-once", "too-many-streams", "unavailable", "storage-full"]

#: What a caller may do. Each role includes those before it. `read`: Read tasks, their files, schedules and task
#: types of its tenant. `submit`: Submit tasks, cancel them, send them signals. `operate`: Decide about parked
#: tasks, also about many at a time, set schedules, send webhooks again. `admin`: List, make and revoke API keys of
#: its tenant. In the tenant `default`, which is that of the installation, also what is about all tenants: keys of
#: any, task types, queues, limits, processes and their metrics.
Role = Literal["read", "submit", "operate", "admin"]

#: Where a schedule comes from. `code`: A program declares it; it fires as long as a reconciler of such a program
#: runs. `api`: It was made over the API.
ScheduleOrigin = Literal["code", "api"]

#: What a person says has become of a step, or of a whole task. `done`: It has been done by hand. For a step the
#: output comes with it. `undone`: It has been undone by hand. `skipped`: It stays as it is, effects included; the
#: task says so with `residue`. `not_needed`: Of a whole task: its purpose is not needed any more. It stays as it
#: is, as with `skipped`. `redriven`: Of a whole task: another task has done it, which is named. It stays as it is,
#: as with `skipped`.
SettledAs = Literal["done", "undone", "skipped", "not_needed", "redriven"]

#: Who wrote the step's code. `custom`: The declaration's author, as an async function. `built_in`: The engine; the
#: declaration says what, not how.
StepKind = Literal["custom", "built_in"]

#: A step's number as its declaration gives it; steps run in ascending order.
StepNo = int

#: Where a step stands. `pending`: Not started. `running`: An attempt is open under the current epoch. `waiting`:
#: Between two attempts, the next one due later; or for a timer, a signal or other tasks. `completed`: Its one
#: output is committed. `skipped`: Its condition said no. `failed`: It gave up. `in_doubt`: Started, outcome
#: unknown: its lease was lost, or the process shut down. `compensating`: Its undo is under way. `compensated`: Its
#: undo is done. `compensation_failed`: Its undo gave up. `resolved`: A person settled its undo by hand.
StepStatus = Literal["pending", "running", "waiting", "completed", "skipped", "failed", "in_doubt", "compensating", "compensated", "compensation_failed", "resolved"]

#: A submitted run of a task type. A UUID version 7, so that ids sort by the time of their submission.
TaskId = str

#: Where a task stands. `submitted`: Accepted; the next step is to run in an API process. `dispatched`: It waits
#: for a worker of its queue. `running`: A host holds the lease and runs forward steps. `waiting`: Waits by itself:
#: for a retry, a breaker, a limit, a timer, a signal, tasks that it has submitted, or a worker that knows its
#: version. `completed`: Every step that was not skipped completed. Terminal. `compensating`: It is being undone,
#: in reverse. No forward step ever runs again. `compensation_failed`: An undo gave up: parked for a person.
#: `failed`: It did not succeed, and nothing is left to undo (or the policy said to leave it). Terminal.
#: `cancelled`: It was cancelled and undone. Terminal. `dead_lettered`: It gave up going forward, and its policy
#: parks it for a person. `resolved`: A person settled it by hand, with a note. Terminal.
TaskStatus = Literal["submitted", "dispatched", "running", "waiting", "completed", "compensating", "compensation_failed", "failed", "cancelled", "dead_lettered", "resolved"]

#: The owner of a task. Every row and every object key carries it; without authentication there is one tenant.
Tenant = str

#: How a turn of a process has ended: in the state in which its task rests, or without one. `completed`: The task
#: completed. `failed`: It has failed, and is undone. `cancelled`: It was cancelled, and is undone. `resolved`: A
#: person has settled it. `compensation_failed`: It is parked: an undo gave up. `dead_lettered`: It is parked: it
#: gave up going forward. `given_back`: It was given back: for another host, or until it is due. `lost`: Its lease
#: was lost. `store_down`: The database did not answer.
TurnOutcome = Literal["completed", "failed", "cancelled", "resolved", "compensation_failed", "dead_lettered", "given_back", "lost", "store_down"]

#: What a waiting task waits for. `retry`: The due time of a step's next attempt. `breaker`: An open circuit
#: breaker. `limit`: A limit of its next step, which other tasks use up. `concurrency`: A place among the tasks of
#: its type, or of its key. `debounce`: A time without another submission of its key. `timer`: A timer step.
#: `signal`: A signal from outside. `children`: The end of tasks that it has submitted. `version`: A worker that
#: can run this version of the type.
WaitReason = Literal["retry", "breaker", "limit", "concurrency", "debounce", "timer", "signal", "children", "version"]

#: What happens to a running step of a worker that cannot reach the database. `stop`: It goes on until the lease of
#: its task is over, and is stopped then. `finish`: It goes on to its own time limit, though another host may run
#: it meanwhile: what it does twice is done once.
WhenCutOff = Literal["stop", "finish"]

#: What a task waits for, for programs. A code never changes its meaning. `working`: A host holds the lease and
#: works on it. `host-lost`: The host that worked on it is lost; the reconciler will take it back. `cut-off`: The
#: host that worked on it was cut off from the database and keeps results: it goes on once it reaches the database
#: again. `reserved-for-recovery`: The host that worked on it is lost, and a reconciler has reserved it: it takes
#: it back within seconds. `due`: It sleeps until it is due: a retry, a timer, an undo, or other tasks of its key
#: that come. `outside`: It sleeps until something comes from outside. `tasks`: It waits until tasks that it has
#: submitted have ended, or are undone. `wake-lost`: The tasks that it has submitted have ended, and nothing has
#: woken it. `concurrency`: It waits for a place: as many tasks of its type or key are under way as may be.
#: `place-free`: There is a place for it, and nothing has woken it. `place-blocked`: There is a place, and an older
#: task of its key that has not started comes first. `replacing`: Tasks of its key are being undone to make room
#: for it. `unclaimed`: It was offered to hosts and none has claimed it yet, and nothing is known that keeps it
#: from being claimed. `unannounced`: It was accepted and is not offered to hosts yet. `backlog`: It was offered in
#: the lane of its queue that goes last, and nothing else keeps it from being claimed. `queue-paused`: An operator
#: has paused its queue. `workers-paused`: An operator has paused the processes that take it. `no-host`: No process
#: that is known to run serves its queue and knows its type in its version and definition. `stopping`: No process
#: that is known to run takes it: those that took it were stopped. `other-host-kind`: Its next step runs in
#: processes of the API, and none runs that takes it. `hosts-silent`: The processes that take it have not refreshed
#: their rows in time, and the database was there. `database-was-away`: The database was away a moment ago: what is
#: known of other processes is older than that. `jammed`: As much abandoned code blocks the threads of each process
#: that takes it as it has slots: it takes nothing more. `no-slot`: No process that takes it has a free slot.
#: `beside`: It has lost consecutive hosts: it is run among few tasks, and no process has few enough. `heavy`: Its
#: next step is heavy, and each process that takes it runs as many heavy steps as it may. `broker`: The processes
#: that could run it cannot fetch from the broker. `consumer`: They may not use the consumer of its queue: it is
#: missing or forbidden. `limit`: Other attempts use up the limit of its next step. `limit-closed`: An operator has
#: set the limit of its next step so low that a day passes between two starts. `breaker`: The circuit breaker of
#: its next step is open, or lets a single attempt through. `breaker-unknown`: It sleeps for a circuit breaker, and
#: the hints do not say how that stands. `lost-counts`: It has lost as many consecutive hosts as its type
#: tolerates: one more ends its recovery. It delays nothing. `version`: The program that answers cannot run it:
#: another version of its type. `definition`: The program that answers knows its version in another definition.
#: `unreadable`: Its rows cannot be read: a host parks it. `newer-program`: A newer program has written it, and
#: this one cannot read it. `deadline`: Its deadline comes before what it waits for. It holds nothing up.
#: `cancel-requested`: A cancel was accepted. `parked`: It waits for a person. `ended`: It has ended.
WhyCode = Literal["working", "host-lost", "cut-off", "reserved-for-recovery", "due", "outside", "tasks", "wake-lost", "concurrency", "place-free", "place-blocked", "replacing", "unclaimed", "unannounced", "backlog", "queue-paused", "workers-paused", "no-host", "stopping", "other-host-kind", "hosts-silent", "database-was-away", "jammed", "no-slot", "beside", "heavy", "broker", "consumer", "limit", "limit-closed", "breaker", "breaker-unknown", "lost-counts", "version", "definition", "unreadable", "newer-program", "deadline", "cancel-requested", "parked", "ended"]

#: What has become of a process, as far as the database knows. `alive`: It was seen lately. `lost`: It was not seen
#: for too long, and did not say that it stops. `stopped`: It said that it stops.
WorkerState = Literal["alive", "lost", "stopped"]


class Accepted(TypedDict):
    """Answer to a submission: 202."""

    #: Its state when it was accepted.
    status: TaskStatus
    #: The task's id; also the last segment of `Location`.
    task_id: TaskId


_AlertDataMay = TypedDict(
    "_AlertDataMay",
    {
        #: The breaker, or the process.
        "about": "Optional[str]",
        #: What blocks them.
        "cause": "Optional[Cause]",
        #: The class of the failure.
        "class": "Optional[str]",
        #: Tasks of this cause that were parked when the alert was sent first, as far as they were counted.
        "count": "Optional[int]",
        #: More, for people.
        "detail": "Optional[str]",
        #: One of them: the first of this hour.
        "example": "Optional[TaskId]",
        #: The id of the group of dead letters, for a redrive. Missing where payloads are encrypted.
        "group": "Optional[str]",
        #: The step that gave up.
        "step": "Optional[str]",
        #: Their type's declared name; or the type that was disabled.
        "task_type": "Optional[str]",
        #: Tenant of the tasks.
        "tenant": "Optional[Tenant]",
        #: The text of the failure, with `#` in place of what differs from task to task. Missing where payloads are
        #: encrypted.
        "text": "Optional[str]",
    }, total=False,
)


class AlertData(_AlertDataMay):
    """What an alert says: of parked tasks their cause, of others what they are about."""


class _AlertViewMust(TypedDict):
    #: Times it was sent.
    attempts: int
    #: Details of the event.
    data: AlertData
    #: What it is about.
    event: AlertEvent
    #: Its id, the header `webhook-id`; the same however often it is sent.
    id: str
    #: State of the delivery.
    status: DeliveryStatus
    #: When it was last changed.
    updated_at: str


class _AlertViewMay(TypedDict, total=False):
    #: When it is sent next, while it is pending.
    due_at: Optional[str]
    #: What came of the last attempt: the status of the answer, or why there was none.
    last: Optional[str]


class AlertView(_AlertViewMust, _AlertViewMay):
    """An alert as it is listed."""


class Amount(TypedDict):
    """A sum of amounts of one currency, of fields that are declared with `x-amount`."""

    #: The currency.
    currency: str
    #: The sum, as a decimal number: `8213.40`.
    sum: str


class _AttemptViewMust(TypedDict):
    #: From 1 in each direction.
    attempt: Attempt
    #: Whether it runs or undoes the step.
    direction: Direction
    #: The epoch it ran under.
    epoch: Epoch
    #: Start, by the database's clock.
    started_at: str
    #: The step's name.
    step: str


class _AttemptViewMay(TypedDict, total=False):
    #: End, by the database's clock.
    ended_at: Optional[str]
    #: Its error.
    error: Optional[str]
    #: How it ended; missing while it is open.
    outcome: Optional[Outcome]
    #: The process that ran it, as `worker:{id}`; of an upload who sent it.
    worker: Optional[str]


class AttemptView(_AttemptViewMust, _AttemptViewMay):
    """One try of a step."""


class _AuditEventMust(TypedDict):
    #: Who caused it: `client`, or the role and the id of a process, as `worker:{id}`.
    actor: str
    #: By the database's clock.
    at: str
    #: The change it was part of.
    change_id: ChangeId
    #: The epoch under which it was written.
    epoch: Epoch
    #: What happened.
    event: str
    #: From 1, without gaps.
    seq: AuditSeq
    #: The task's state after it.
    status: TaskStatus
    #: The task's state after.
    to: TaskStatus


_AuditEventMay = TypedDict(
    "_AuditEventMay",
    {
        #: The attempt concerned.
        "attempt": "Optional[Attempt]",
        #: More, by event.
        "details": "Any",
        #: The task's state before.
        "from": "Optional[TaskStatus]",
        #: The step concerned.
        "step": "Optional[str]",
        #: The step's state before.
        "step_from": "Optional[StepStatus]",
        #: The step's state after.
        "step_to": "Optional[StepStatus]",
    }, total=False,
)


class AuditEvent(_AuditEventMust, _AuditEventMay):
    """One event of a stream of a task, the audit entry that it stands for.

    Its id is the entry's `seq`.
    """


class AuditTrail(TypedDict):
    """A task's audit trail and attempts."""

    #: In the order of their start.
    attempts: List[AttemptView]
    #: Entries in the order of the audit.
    entries: List[AuditView]
    #: Id of the task.
    task_id: TaskId


class _AuditViewMust(TypedDict):
    #: Who caused it: `client`, or the role and the id of a process, as `worker:{id}`.
    actor: str
    #: By the database's clock.
    at: str
    #: The change it was part of.
    change_id: ChangeId
    #: The epoch under which it was written.
    epoch: Epoch
    #: What happened.
    event: str
    #: From 1, without gaps.
    seq: AuditSeq
    #: The task's state after.
    to: TaskStatus


_AuditViewMay = TypedDict(
    "_AuditViewMay",
    {
        #: The attempt concerned.
        "attempt": "Optional[Attempt]",
        #: More, by event.
        "details": "Any",
        #: The task's state before.
        "from": "Optional[TaskStatus]",
        #: The step concerned.
        "step": "Optional[str]",
        #: The step's state before.
        "step_from": "Optional[StepStatus]",
        #: The step's state after.
        "step_to": "Optional[StepStatus]",
    }, total=False,
)


class AuditView(_AuditViewMust, _AuditViewMay):
    """One entry of a task's audit trail."""


class AutoDisable(TypedDict):
    """When a task type stops taking submissions.

    A value of neutral data, usable in a `const`: ``` # use counterstep_contracts::AutoDisable; pub const
    ZIP_FAILURES: AutoDisable = AutoDisable::after_failures(5).within('10m').cooldown('5m'); ``` Tasks that were
    accepted go on, and are undone where they must be. An impossible policy is an error of the compiler: the
    constructors panic during constant evaluation.
    """

    #: Disables the type at this number of consecutive tasks that ended as Failed or were parked ...
    after_failures: int
    #: How long it stays disabled. Then a single task is accepted as a probe, and its outcome decides. `None`:
    #: disabled until a person enables it, without a probe.
    cooldown: Optional[str]
    #: ... in the time before now of this length. A task that completes resets the count.
    within: str


_BlockViewMust = TypedDict(
    "_BlockViewMust",
    {
        #: What kind of failure it is.
        "class": "Literal[\"transient\", \"permanent\", \"rate_limited\", \"timed_out\", \"panicked\", \"cancelled\", \"deadline\", \"in_doubt\", \"lost\", \"replaced\", \"unreadable\"]",
        #: In the words of the undo.
        "message": "str",
    },
)


class _BlockViewMay(TypedDict, total=False):
    #: The step whose undo gave up, where one did.
    step: Optional[str]


class BlockView(_BlockViewMust, _BlockViewMay):
    """The failure of an undo, by which a task is parked."""


class BreakerPolicy(TypedDict):
    """When attempts at something are not worth starting.

    A value of neutral data, usable in a `const`: ``` # use counterstep_contracts::BreakerPolicy; pub const
    PAYMENTS: BreakerPolicy = BreakerPolicy::named('payments').after_failures(5).within('1m').open_for('30s'); ```
    An impossible policy is an error of the compiler: the constructors panic during constant evaluation.
    """

    #: Opens at this number of failures ...
    after_failures: int
    #: The dependency it stands for: all steps of all task types that name it share one breaker. `None`: each step
    #: that names the constant has its own.
    name: Optional[str]
    #: How long it stays open. Then a single attempt is let through as a probe.
    open_for: str
    #: ... in a window of this length, which starts with the first of them.
    within: str


class _BreakerRequestMust(TypedDict):
    #: Reason, for the audit.
    note: str


class _BreakerRequestMay(TypedDict, total=False):
    #: Who decides, for the audit.
    actor: Optional[str]


class BreakerRequest(_BreakerRequestMust, _BreakerRequestMay):
    """Body of `POST /api/breakers/{name}/close`."""


class _BreakerViewMust(TypedDict):
    #: Name of the breaker.
    name: str
    #: How it stands. Without a Redis each process has its own: then that of the process which lets the fewest
    #: attempts through, as of the last refresh of the worker registry.
    state: BreakerStanding


class _BreakerViewMay(TypedDict, total=False):
    #: Without a Redis: the processes whose own breaker is not closed. After a close: those that close theirs with
    #: their next refresh.
    processes: List[str]


class BreakerView(_BreakerViewMust, _BreakerViewMay):
    """A line of `GET /api/breakers`."""


class BulkFailure(TypedDict):
    """A task for which an operation could not be carried out."""

    #: The reason, as text.
    reason: str
    #: Id of the task.
    task_id: TaskId


class BulkFilter(TypedDict, total=False):
    """Which tasks an operation is for.

    All that is given has to fit.
    """

    #: With a failure of this class.
    failure_class: Literal["transient", "permanent", "rate_limited", "timed_out", "panicked", "cancelled", "deadline", "in_doubt", "lost", "replaced", "unreadable"]
    #: With this in the text of the failure.
    failure_text: Optional[str]
    #: With all of these labels.
    labels: Labels
    #: A search, as `GET /api/tasks?q=` takes it, each term of which is read as one thing. Answers have what it was
    #: read as in the fields below.
    q: Optional[str]
    #: Submitted not before this time.
    since: Optional[str]
    #: In one of these states. None: in any state that the action is for; with `run-again` there has to be one.
    status: List[TaskStatus]
    #: Of this type, by its declared name or its route.
    type: Optional[str]
    #: Submitted before this time.
    until: Optional[str]


class BulkFilterInput(TypedDict, total=False):
    """Which tasks an operation is for.

    All that is given has to fit.
    """

    #: With a failure of this class.
    failure_class: Literal["transient", "permanent", "rate_limited", "timed_out", "panicked", "cancelled", "deadline", "in_doubt", "lost", "replaced", "unreadable"]
    #: With this in the text of the failure.
    failure_text: Optional[str]
    #: With all of these labels.
    labels: Labels
    #: A search, as `GET /api/tasks?q=` takes it, each term of which is read as one thing. Answers have what it was
    #: read as in the fields below.
    q: Optional[str]
    #: Submitted not before this time.
    since: Optional[str]
    #: In one of these states. None: in any state that the action is for; with `run-again` there has to be one.
    status: List[TaskStatus]
    #: Of this type, by its declared name or its route.
    type: Optional[str]
    #: Submitted before this time.
    until: Optional[str]


class _BulkPreviewMust(TypedDict):
    #: Whether all tasks were looked at. If not: there may be more than were counted.
    complete: bool
    #: Number of tasks.
    count: int
    #: The first of them: the last submitted.
    tasks: List[TaskId]


class _BulkPreviewMay(TypedDict, total=False):
    #: With `run-again`: number of tasks that have run again before, as new tasks. They are not counted above, and
    #: stay as they are.
    already_run_again: Optional[int]
    #: Their causes, the most frequent first; of tasks without a failure there is none.
    causes: List[DeadLetterGroup]
    #: What was asked for.
    filter: Optional[BulkFilter]
    #: The group that was asked for.
    group: Optional[str]
    #: With `run-again`: which tasks would be refused.
    refused: Optional[BulkRefused]
    #: What would be undone, and from where tasks would go on; missing where the action does neither.
    undo: Optional[BulkUndo]


class BulkPreview(_BulkPreviewMust, _BulkPreviewMay):
    """What an operation would be for: answer to a `preview`."""


class BulkRefused(TypedDict):
    """Which tasks would not run again, of those that were looked at for it."""

    #: Why, the most frequent reason first; empty: none of them would be refused.
    reasons: List[RefusedFor]
    #: Number of tasks that were looked at: the last submitted.
    tasks: int


class _BulkRequestMust(TypedDict):
    #: What is done with each task.
    action: BulkAction
    #: Why, for the audit of each task.
    note: str


_BulkRequestMay = TypedDict(
    "_BulkRequestMay",
    {
        #: Who, by the caller's own words: they stand behind the note. The audit's actor is the caller.
        "actor": "Optional[str]",
        #: With `resolve`: what has become of each task.
        "as": "Optional[SettledAs]",
        #: Tasks like this. An empty one: all that the action is for.
        "filter": "Optional[BulkFilterInput]",
        #: With `run-again`: the step from which each task runs; missing: from the start.
        "from": "Optional[str]",
        #: Tasks of this group. This, or a `filter`, or both.
        "group": "Optional[str]",
        #: How fast it goes, and where it pauses by itself. Missing: as fast as it can, to its end.
        "pace": "Optional[PaceInput]",
        #: With `redrive` and `run-again`: fields of the request of each task that are to be others, a JSON merge
        #: patch of RFC 7396. A task whose request would not fit its type stays as it is.
        "patch": "Any",
        #: Counts the tasks and changes nothing.
        "preview": "bool",
    }, total=False,
)


class BulkRequest(_BulkRequestMust, _BulkRequestMay):
    """Body of `POST /api/bulk-operations`."""


class BulkResults(TypedDict):
    """How tasks stand now on which an operation was carried out."""

    #: How many of them are in each state now; with `run-again` of the new tasks. A state that none is in is left
    #: out.
    by_status: Dict[str, int]
    #: Number of them that were deleted since, or cannot be read.
    deleted: int
    #: Number of tasks that were looked at: those of the first 500 on which it was carried out.
    tasks: int


class _BulkTaskMust(TypedDict):
    #: What became of it in the operation.
    outcome: BulkOutcome
    #: The task.
    task_id: TaskId


class _BulkTaskMay(TypedDict, total=False):
    #: With `run-again`: the new task.
    new_task_id: Optional[TaskId]
    #: Why it could not be carried out.
    reason: Optional[str]
    #: State of the task now, with `run-again` of the new one; missing where it was deleted, or cannot be read.
    status: Optional[TaskStatus]


class BulkTask(_BulkTaskMust, _BulkTaskMay):
    """A task of an operation."""


class _BulkUndoMust(TypedDict):
    #: Number of tasks of which an undo has given up before: they wait for a person again where its reason stands.
    gave_up: int
    #: Number of tasks of which a step is in doubt: it is not known how far it came.
    in_doubt: int
    #: How often each step would be undone, those of one type together.
    steps: List[UndoneStep]
    #: Number of tasks that were looked at and whose code is known: the last submitted.
    tasks: int
    #: Number of tasks that were looked at and whose code this process does not have: what would become of them is
    #: not known.
    unknown: int


class _BulkUndoMay(TypedDict, total=False):
    #: Sums of the amounts in the requests of these tasks, by currency.
    amounts: List[Amount]
    #: How often tasks would go on from each step, those of one type together.
    goes_on: List[GoesOn]
    #: The tasks that differ most from the others of their type, at most ten.
    unusual: List[UnusualTask]


class BulkUndo(_BulkUndoMust, _BulkUndoMay):
    """What an operation would undo, or let run, of the tasks that were looked at for it."""


class _BulkViewMust(TypedDict):
    #: What is done with each task.
    action: BulkAction
    #: Who has started it.
    actor: str
    #: When it was started. Tasks that are submitted, parked or have ended later are not among its tasks.
    created_at: str
    #: Number of tasks on which it was carried out.
    done: int
    #: Number of tasks on which it could not be carried out.
    failed: int
    #: Tasks like this.
    filter: BulkFilter
    #: Id of the operation.
    id: str
    #: Reason, for the audit.
    note: str
    #: Number of tasks that were modified concurrently before their turn; they were left alone.
    skipped: int
    #: State of the operation.
    status: BulkStatus
    #: Its last change.
    updated_at: str


_BulkViewMay = TypedDict(
    "_BulkViewMay",
    {
        #: With `run-again`: number of tasks that had run again before their turn, by another operation or a
        #: person; they were left alone.
        "already_run_again": "Optional[int]",
        #: With `resolve`: what has become of each task.
        "as": "Optional[SettledAs]",
        #: When it will have ended, at its pace or as fast as it has gone since it was started or resumed; missing
        #: while it is paused or waits, and where it is not known.
        "expected_end": "Optional[str]",
        #: The first failures.
        "failures": "List[BulkFailure]",
        #: The step from which each runs again.
        "from": "Optional[str]",
        #: With a pace: number of its tasks that have gone wrong since it was started or resumed, as `max_failures`
        #: counts them.
        "gone_wrong": "Optional[int]",
        #: Tasks of this group.
        "group": "Optional[str]",
        #: Number of tasks that are left; missing where there were too many to count.
        "left": "Optional[int]",
        #: How fast it goes, and where it pauses by itself.
        "pace": "Optional[Pace]",
        #: What is to be different in the request of each.
        "patch": "Any",
        #: Why it is paused.
        "paused_for": "Optional[PausedFor]",
        #: How its tasks stand now; in the answer about one operation alone.
        "results": "Optional[BulkResults]",
        #: What it waits for, and goes on by itself after that.
        "waits_for": "Optional[str]",
    }, total=False,
)


class BulkView(_BulkViewMust, _BulkViewMay):
    """A bulk operation."""


class _CallerViewMust(TypedDict):
    #: Whether it may see and change what is of all tenants: it has the role `admin` in the tenant `default`.
    is_of_installation: bool
    #: What it may do.
    role: Role
    #: Tenant whose tasks it reaches.
    tenant: str


class _CallerViewMay(TypedDict, total=False):
    #: The id of its API key, where it has one.
    key: Optional[str]
    #: Its name in audits; missing where callers are not authenticated.
    subject: Optional[str]


class CallerView(_CallerViewMust, _CallerViewMay):
    """Answer of `GET /api/caller`: who sends the request, as the API has found out."""


class CancelAnswer(TypedDict):
    """Answer to a cancel: 202 or 200."""

    #: What will happen: `nothing-had-run`, `undoing`, `stopping`, `already-cancelled`.
    outcome: CancelOutcome
    #: Its state now.
    status: TaskStatus
    #: Id of the task.
    task_id: TaskId
    #: Names of the steps that will be undone, in that order. A step that is running now is among them.
    will_undo: List[str]


class _CauseMust(TypedDict):
    #: Which way it went.
    side: CauseSide


_CauseMay = TypedDict(
    "_CauseMay",
    {
        #: The class of the failure, where there is one.
        "class": "Optional[str]",
        #: The code of the problem document that it answered with.
        "code": "Optional[str]",
        #: The method of that call.
        "method": "Optional[str]",
        #: Where the code panicked, as `src/steps.rs:17`.
        "place": "Optional[str]",
        #: The service that was called, by its name in the settings.
        "service": "Optional[str]",
        #: The status of its answer; missing where none came.
        "status": "Optional[int]",
        #: The step that failed, or whose undo did.
        "step": "Optional[str]",
    }, total=False,
)


class Cause(_CauseMust, _CauseMay):
    """What a task fails by, without its text: of a parked task what blocks it now."""


class ChainView(TypedDict):
    """Answer of `GET /api/tasks/{id}/audit/chain`: whether the rows of a task's audit are bound to each other as
    they were written.
    """

    #: Rows that were checked: one for each change, with all of its entries.
    changes: int
    #: Of these, rows whose data was erased. Their digests stand.
    erased: int
    #: The hash of the last row, in hexadecimal digits.
    head: str
    #: Id of the task.
    task_id: TaskId
    #: Whether each row follows from the one before it, and the task's row from the last one. `counterstep audit
    #: verify` says what is wrong where not.
    whole: bool


class _ChildSummaryMust(TypedDict):
    #: Its place among the tasks of that step, from 0.
    place: int
    #: State of the task.
    status: TaskStatus
    #: Name of the step that has submitted it.
    step: str
    #: Id of the task.
    task_id: TaskId
    #: Its type's declared name.
    task_type: str


class _ChildSummaryMay(TypedDict, total=False):
    #: Why it did not complete.
    failure: Optional[FailureView]


class ChildSummary(_ChildSummaryMust, _ChildSummaryMay):
    """One line of `GET /api/tasks/{id}/children`."""


class ConcurrencyDecl(TypedDict):
    """How many tasks of a key are under way at a time: from their first start to their rest, over all hosts."""

    #: Maximum number of tasks.
    at_once: int
    #: What becomes of a further one.
    beyond: Beyond
    #: How long no other task of its key must be submitted before a task starts; it replaces the older ones that
    #: have not started. `None`: each starts at once.
    debounce: Optional[str]


class _DeadLetterMust(TypedDict):
    #: What blocks it now.
    cause: Cause
    #: When it was submitted.
    created_at: str
    #: `dead_lettered` or `compensation_failed`.
    status: TaskStatus
    #: Id of the task.
    task_id: TaskId
    #: Its type's declared name.
    task_type: str
    #: Last change: the one that parked it, or what an operator has done since.
    updated_at: str
    #: Its type's version.
    version: int


class _DeadLetterMay(TypedDict, total=False):
    #: Why it did not complete, with what blocks it now.
    failure: Optional[FailureView]
    #: What it was labelled with when it was submitted.
    labels: Labels


class DeadLetter(_DeadLetterMust, _DeadLetterMay):
    """One line of `GET /api/dead-letters`."""


class _DeadLetterGroupMust(TypedDict):
    #: How many of them are in each state. A state that none is in is left out.
    by_status: Dict[str, int]
    #: What blocks them now.
    cause: Cause
    #: How many there are.
    count: int
    #: The last submitted one of them.
    example: TaskId
    #: The first of their last changes.
    first_at: str
    #: The same for the same cause at any time: a hash of type, cause and masked text.
    id: str
    #: The last of their last changes.
    last_at: str
    #: Their type's declared name.
    task_type: str
    #: What the text of their failure has beside it, with `#` in place of ids, numbers and times.
    text: str


_DeadLetterGroupMay = TypedDict(
    "_DeadLetterGroupMay",
    {
        #: The class of their failure, where they have one.
        "class": "Optional[str]",
        #: The task of `first_at`; missing in answers of older programs.
        "first": "Optional[TaskId]",
        #: The version of the program that ran the last attempt of that task, of the 20 largest groups. Missing: it
        #: has none, the worker registry does not have the process any more, the task has a long past, or the
        #: caller may not see processes.
        "first_program": "Optional[str]",
        #: What was last decided about tasks of this cause as one operation, of the 20 largest groups.
        "last_decision": "Optional[PastDecision]",
        #: The step that gave up, or whose undo did.
        "step": "Optional[str]",
    }, total=False,
)


class DeadLetterGroup(_DeadLetterGroupMust, _DeadLetterGroupMay):
    """Parked tasks of one cause."""


class DeadLetterGroups(TypedDict):
    """Answer of `GET /api/dead-letters/groups`."""

    #: Whether all parked tasks were looked at. If not: the last submitted ones were.
    complete: bool
    #: Tasks that are counted in them.
    counted: int
    #: The largest first.
    groups: List[DeadLetterGroup]
    #: Tasks of further groups, where there are more groups than are shown.
    others: int


class _DeadLetterViewMust(TypedDict):
    #: Its attempts with their errors, in the order of their start.
    attempts: List[AttemptView]
    #: What blocks it now.
    cause: Cause
    #: When it was submitted.
    created_at: str
    #: The id of its group: parked tasks of the same cause.
    group: str
    #: What its steps are given; `null` where it was erased.
    request: Any
    #: `dead_lettered` or `compensation_failed`.
    status: TaskStatus
    #: How far it has come, in order.
    steps: List[StepView]
    #: Id of the task.
    task_id: TaskId
    #: Its type's declared name.
    task_type: str
    #: Last change: the one that parked it, or what an operator has done since.
    updated_at: str
    #: Its type's version.
    version: int


class _DeadLetterViewMay(TypedDict, total=False):
    #: What they were given before an operator changed it, the first one first.
    earlier_requests: List[Any]
    #: Why it did not complete, with what blocks it now.
    failure: Optional[FailureView]
    #: What it was labelled with when it was submitted.
    labels: Labels
    #: The trace id of its submission, where it came with one.
    trace_id: Optional[str]
    #: The process that ran its last attempt.
    worker: Optional[str]


class DeadLetterView(_DeadLetterViewMust, _DeadLetterViewMay):
    """A parked task with what a person needs to decide: answer of `GET /api/dead-letters/{id}`."""


class _DeclaredLimitMust(TypedDict):
    #: What has the whole limit for itself: `all`, `tenant`, `key`, or `label` and the label's name behind a colon.
    scope: str


class _DeclaredLimitMay(TypedDict, total=False):
    #: Maximum number of attempts that run at a time.
    at_once: Optional[int]
    #: Maximum number of starts in a period.
    rate: Optional[Rate]


class DeclaredLimit(_DeclaredLimitMust, _DeclaredLimitMay):
    """Values of a limit as they are declared."""


class _DeliveryViewMust(TypedDict):
    #: Times it was sent.
    attempts: int
    #: The type of its event.
    event: str
    #: Its id, the header `webhook-id`; the same however often it is sent.
    id: str
    #: State of the delivery.
    status: DeliveryStatus
    #: When it was last changed.
    updated_at: str
    #: Where it goes.
    url: str


class _DeliveryViewMay(TypedDict, total=False):
    #: When it is sent next, while it is pending.
    due_at: Optional[str]
    #: What came of the last attempt: the status of the answer, or why there was none.
    last: Optional[str]


class DeliveryView(_DeliveryViewMust, _DeliveryViewMay):
    """A webhook as it is listed."""


class FailureShare(TypedDict):
    """How many turns had a failed attempt."""

    #: Turns that had one.
    failed: int
    #: All turns.
    turns: int


_FailureViewMust = TypedDict(
    "_FailureViewMust",
    {
        #: What kind of failure it is.
        "class": "Literal[\"transient\", \"permanent\", \"rate_limited\", \"timed_out\", \"panicked\", \"cancelled\", \"deadline\", \"in_doubt\", \"lost\", \"replaced\", \"unreadable\"]",
        #: In the words of the step.
        "message": "str",
    },
)


class _FailureViewMay(TypedDict, total=False):
    #: What blocks the task now that it is parked, where that is another failure.
    blocked_by: Optional[BlockView]
    #: The step that gave up, where one did.
    step: Optional[str]


class FailureView(_FailureViewMust, _FailureViewMay):
    """Why a task did not complete."""


class FallbackDecl(TypedDict):
    """What runs in place of a step that gave up."""

    #: What it reads.
    inputs: List[InputDecl]
    #: The function's name.
    name: str


class _FetchErrorViewMust(TypedDict):
    #: The words of the broker, or of its client.
    message: str
    #: Of this queue, or of this lane of it alone where a consumer is named.
    queue: str


class _FetchErrorViewMay(TypedDict, total=False):
    #: The consumer that the process may not use.
    consumer: Optional[str]
    #: The subject that the user of the process may not publish to.
    denied_subject: Optional[str]


class FetchErrorView(_FetchErrorViewMust, _FetchErrorViewMay):
    """What keeps a process from fetching messages."""


class FlowDecl(TypedDict):
    """How the tasks of a type share what there is."""

    #: How many tasks of a key are under way at a time; `None`: as many as there are.
    concurrency: Optional[ConcurrencyDecl]
    #: What is made of the request, as written: tasks of one tenant with the same value share a key. `None`: all
    #: tasks of the type do.
    key: Optional[str]
    #: Which tasks of its queue come before them.
    priority: Priority


class _GateViewMust(TypedDict):
    #: What it is.
    gate: GateKind
    #: Its name; of processes their role and machine, as `worker:w1`.
    name: str
    #: The command that opens it.
    opens: str


class _GateViewMay(TypedDict, total=False):
    #: Who has shut it; missing: it is not known.
    by: Optional[str]
    #: Why.
    note: Optional[str]
    #: Since when; missing: it is not known.
    since: Optional[str]


class GateView(_GateViewMust, _GateViewMay):
    """Something that is shut, or set by hand."""


class GoesOn(TypedDict):
    """A step from which tasks would go on."""

    #: Of them those in which its last attempt is in doubt.
    in_doubt: int
    #: Name of the step.
    step: str
    #: Its type's declared name.
    task_type: str
    #: Number of tasks that go on from it.
    tasks: int


class HistoryView(TypedDict):
    """Answer of `GET /api/history`: how an installation was doing, as the process that answers has looked at it
    since it started, an hour back at most.
    """

    #: The first first.
    samples: List[SampleView]


class _HourDurationsMust(TypedDict):
    #: How many tasks ended, or were parked, in each state.
    ended: Dict[str, int]
    #: Its begin.
    hour: str
    #: Its steps, by name.
    steps: List[StepDurations]


class _HourDurationsMay(TypedDict, total=False):
    #: How long those took that completed.
    tasks: Optional[Percentiles]


class HourDurations(_HourDurationsMust, _HourDurationsMay):
    """The tasks of a type that ended or were parked in an hour, and their steps."""


class InputDecl(TypedDict):
    """One input of a step: a parameter of its function."""

    #: The parameter's name.
    name: str
    #: `request`, or the name of the step whose output it reads.
    source: str
    #: Its type as written.
    ty: str


class IsolateDecl(TypedDict):
    """A step whose code runs in a process of its own."""

    #: Bytes of memory that the process may take; `None`: as many as there are.
    memory: Optional[str]


class _KeptViewMust(TypedDict):
    #: Their size.
    bytes: int
    #: Number of results.
    results: int


class _KeptViewMay(TypedDict, total=False):
    #: Age of the oldest, in whole seconds.
    oldest_seconds: Optional[int]


class KeptView(_KeptViewMust, _KeptViewMay):
    """Results that a process keeps, when it was seen last."""


class _KeyViewMust(TypedDict):
    #: When it was made.
    created_at: str
    #: Actor that created the key.
    created_by: str
    #: The part of the key that is no secret.
    id: str
    #: What its holder may do.
    role: Role
    #: Subject that holds the key.
    subject: str
    #: Tenant whose tasks its holder may reach.
    tenant: str


class _KeyViewMay(TypedDict, total=False):
    #: Until when it is valid.
    expires_at: Optional[str]
    #: When it was revoked.
    revoked_at: Optional[str]
    #: Who revoked it.
    revoked_by: Optional[str]


class KeyView(_KeyViewMust, _KeyViewMay):
    """An API key as it is listed.

    Times are RFC 3339 in UTC.
    """


class Limit(TypedDict):
    """How much of something may be used over all processes.

    A value of neutral data, usable in a `const`: ``` # use counterstep_contracts::Limit; pub const BANK: Limit =
    Limit::named('bank').at_once(10).rate(50, '1s'); pub const PER_CUSTOMER: Limit =
    Limit::named('customers').at_once(1).per_label('customer'); ``` An impossible limit is an error of the compiler:
    the constructors panic during constant evaluation.
    """

    #: Maximum number of attempts that run at a time; `None`: no maximum.
    at_once: Optional[int]
    #: What it limits: all steps of all task types that name it share it.
    name: str
    #: Maximum number of attempts that start in a period; `None`: no maximum.
    rate: Optional[Rate]
    #: Each of these has the whole limit for itself.
    scope: LimitScope


class _LimitSetViewMust(TypedDict):
    #: Who has set them.
    by: str
    #: Reason, for the audit.
    note: str
    #: When they were set.
    since: str


class _LimitSetViewMay(TypedDict, total=False):
    #: Maximum number of attempts that run at a time.
    at_once: Optional[int]
    #: Maximum number of starts in a period.
    rate: Optional[Rate]


class LimitSetView(_LimitSetViewMust, _LimitSetViewMay):
    """Values of a limit that a person has set.

    Times are RFC 3339 in UTC.
    """


class LimitUseView(TypedDict):
    """What is in use of a limit."""

    #: Number of permits that are held, over all processes.
    held: int
    #: The permits that each process holds, by its id; empty for places, since tasks hold those.
    holders: Dict[str, int]
    #: The tenant, and behind a slash the label value or the digest of the key; empty where all tasks share the
    #: limit.
    of: str
    #: Number of attempts that wait for a permit.
    waiting: int


class _LimitViewMust(TypedDict):
    #: Name of the limit.
    name: str
    #: What is in use: one for all tasks, or one for each tenant or label value.
    uses: List[LimitUseView]


class _LimitViewMay(TypedDict, total=False):
    #: As the task types of this program declare it; missing: they do not.
    declared: Optional[DeclaredLimit]
    #: What a person has set in place of it; missing: what is declared holds.
    set: Optional[LimitSetView]


class LimitView(_LimitViewMust, _LimitViewMay):
    """A limit, what holds of it, and what is in use."""


class LogLine(TypedDict):
    """One line of a task's log."""

    #: When it was logged: the database's time, read by the timer of the step's host.
    at: str
    #: Which attempt; of a probe, the one that it asks about.
    attempt: Attempt
    #: How much it matters.
    level: LogLevel
    #: One line, with control characters written out.
    message: str
    #: What of that step.
    part: LogPart
    #: The step's name.
    step: str


class _LogPageMust(TypedDict):
    #: Number of lines of the task that were dropped, the oldest first: a log is bounded.
    dropped: int
    #: In the order in which they were written.
    lines: List[LogLine]
    #: Number of lines that cannot be read: they were erased with the payload keys of their tenant, or their key is
    #: missing here.
    unreadable: int


class _LogPageMay(TypedDict, total=False):
    #: Hand it back as `?cursor=` for the lines behind these, now or later; missing while there is no line.
    cursor: Optional[str]


class LogPage(_LogPageMust, _LogPageMay):
    """A page of a task's log."""


class _MachineViewMust(TypedDict):
    #: The machine's name.
    machine: str
    #: How many of them are alive.
    processes: int
    #: `worker`, `api`, or `dev`.
    role: str
    #: How many tasks those ran when they were seen last.
    running_count: int


class _MachineViewMay(TypedDict, total=False):
    #: Since when they are paused, and why; missing: they are not.
    paused: Optional[PauseView]


class MachineView(_MachineViewMust, _MachineViewMay):
    """The processes of a machine that have the same role."""


class _NamedBreakerMust(TypedDict):
    #: The constant's path as written.
    name: str
    #: The policy of the breaker.
    policy: BreakerPolicy


class _NamedBreakerMay(TypedDict, total=False):
    #: What holds instead, where the settings change it
    effective: BreakerPolicy


class NamedBreaker(_NamedBreakerMust, _NamedBreakerMay):
    """A breaker and the name under which the declaration refers to it."""


class _NamedPolicyMust(TypedDict):
    #: The constant's path as written, or `built-in`, `none`, `undo` for the defaults.
    name: str
    #: The retry policy.
    policy: RetryPolicy


class _NamedPolicyMay(TypedDict, total=False):
    #: What holds instead, where the settings change it
    effective: RetryPolicy


class NamedPolicy(_NamedPolicyMust, _NamedPolicyMay):
    """A retry policy and the name under which the declaration refers to it."""


class NeighboursView(TypedDict):
    """Turns of other processes."""

    #: How many of the turns had a failed attempt.
    failures: FailureShare
    #: Processes that had such turns.
    processes: int


class _NewKeyMust(TypedDict):
    #: When it was made.
    created_at: str
    #: Actor that created the key.
    created_by: str
    #: The part of the key that is no secret.
    id: str
    #: `cs_{id}_{secret}`, for `Authorization: Bearer`. It is stored as a hash and never shown again.
    key: str
    #: What its holder may do.
    role: Role
    #: Subject that holds the key.
    subject: str
    #: Tenant whose tasks its holder may reach.
    tenant: str


class _NewKeyMay(TypedDict, total=False):
    #: Until when it is valid.
    expires_at: Optional[str]
    #: When it was revoked.
    revoked_at: Optional[str]
    #: Who revoked it.
    revoked_by: Optional[str]


class NewKey(_NewKeyMust, _NewKeyMay):
    """Answer to it: the only one that holds the key."""


class _NewKeyRequestMust(TypedDict):
    #: What its holder may do.
    role: Role
    #: Who holds it: its name in audits. 1 to 100 of `A-Z a-z 0-9 . _ @ -`.
    subject: str


class _NewKeyRequestMay(TypedDict, total=False):
    #: For how long it is valid, as `90d`; missing: until it is revoked.
    expires_in: Optional[str]
    #: Tenant whose tasks its holder may reach; missing: the caller's tenant. Another tenant is for administrators
    #: of the tenant `default`.
    tenant: Optional[str]


class NewKeyRequest(_NewKeyRequestMust, _NewKeyRequestMay):
    """Body of `POST /api/keys`."""


class NotUndone(TypedDict):
    """A step that no undo touches."""

    #: Why it is not undone.
    kind: NotUndoneKind
    #: The same for people; for a waived undo the declaration's words.
    reason: str
    #: State of the step.
    status: StepStatus
    #: Name of the step.
    step: str


class _OpenEffectMust(TypedDict):
    #: Why it is open.
    kind: OpenEffectKind
    #: Number of the step.
    no: StepNo
    #: The same for people.
    reason: str
    #: Name of the step.
    step: str


class _OpenEffectMay(TypedDict, total=False):
    #: The amounts that its output declares; where it has none yet, those of the request.
    amounts: List[Amount]
    #: The service that the last failure of the step or its undo names.
    service: Optional[str]


class OpenEffect(_OpenEffectMust, _OpenEffectMay):
    """An effect of a step."""


class _OpenEffectSumMust(TypedDict):
    #: How many.
    effects: int
    #: One of the tasks: the newest.
    example: TaskId
    #: Why they are open.
    kind: OpenEffectKind
    #: The least `since` of their tasks, in UTC.
    oldest: str
    #: Name of the step.
    step: str
    #: Declared name of the type.
    task_type: str


class _OpenEffectSumMay(TypedDict, total=False):
    #: Sums of their amounts, one of each currency.
    amounts: List[Amount]
    #: The service that the failures of the step or its undo name.
    service: Optional[str]


class OpenEffectSum(_OpenEffectSumMust, _OpenEffectSumMay):
    """Open effects of one kind, of one step."""


class OpenEffectSums(TypedDict):
    """Open effects, counted."""

    #: Whether all tasks were looked at; otherwise the newest parked ones, and the newest that have ended.
    complete: bool
    #: By kind, and of a kind the most frequent first.
    sums: List[OpenEffectSum]
    #: Tasks with open effects that were counted.
    tasks: int
    #: Tasks whose type this program does not know, or whose rows it cannot read: what they have done is not
    #: counted.
    unknown: int


class OpenEffects(TypedDict):
    """A task with open effects."""

    #: Its open effects, the last step first.
    effects: List[OpenEffect]
    #: When it was last changed, in UTC.
    since: str
    #: State of the task.
    status: TaskStatus
    #: Id of the task.
    task_id: TaskId
    #: Its type's declared name.
    task_type: str


class OperatorAnswer(TypedDict):
    """Answer to a resolve or a retry."""

    #: Steps that wait for a decision still. While there are any, the task stays parked.
    open_steps: List[str]
    #: Its state now.
    status: TaskStatus
    #: Id of the task.
    task_id: TaskId
    #: Steps that will be undone, in that order.
    will_undo: List[str]


class _OperatorMoveMust(TypedDict):
    #: What it does, for people.
    does: str
    #: What it is, for programs: `cancel`, `retry`, `step-done`, `resume-queue` …
    name: str
    #: For people, behind "What would happen if I …".
    title: str


class _OperatorMoveMay(TypedDict, total=False):
    #: Fields of the body that a person may add, or has to where it has them as null. `body`: all of it.
    asks: List[str]
    #: A body to start from; missing where the call takes none, or where `asks` has all of it.
    body: Any
    #: The text of its button; missing where it is a command.
    button: str
    #: Arguments of the program's command line, where no call of the API does it.
    command: Optional[str]
    #: The reason that it ends. Missing: it is about the task, whatever it waits for. A reason that no call ends is
    #: over at its `until`.
    ends: Optional[WhyCode]
    #: HTTP method; missing where it is a command.
    method: str
    #: `operationId` of the call in the OpenAPI document; missing where it is a command.
    operation: Optional[str]
    #: Path; missing where it is a command.
    path: str
    #: The role that the call needs; missing where it is a command.
    role: Optional[Role]
    #: The step concerned; missing: the whole task, or something beside it.
    step: Optional[str]


class OperatorMove(_OperatorMoveMust, _OperatorMoveMay):
    """A call that an operator can make, or a command."""


class Pace(TypedDict, total=False):
    """How fast an operation goes, and where it pauses by itself.

    While a circuit breaker of a step of its next tasks is open, an operation with a pace waits; when that lets one
    attempt through again, it goes on with one task, and with more once it closes. Tasks that are undone, cancelled
    or settled wait for none.
    """

    #: Pauses when this many of its tasks have gone wrong since it was started or resumed: it could not be carried
    #: out on them, or they are parked (again), or were to go on and have ended as failed. At most four times as
    #: many, and 20 to 500, of its tasks are under way at a time.
    max_failures: Optional[int]
    #: Maximum number of tasks that it decides on in a minute, on average.
    per_minute: Optional[int]
    #: Decides on this many tasks, and pauses until a person resumes it. A cancel decides on the selected tasks
    #: above one with it.
    sample: Optional[int]


class PaceInput(TypedDict, total=False):
    """How fast an operation goes, and where it pauses by itself.

    While a circuit breaker of a step of its next tasks is open, an operation with a pace waits; when that lets one
    attempt through again, it goes on with one task, and with more once it closes. Tasks that are undone, cancelled
    or settled wait for none.
    """

    #: Pauses when this many of its tasks have gone wrong since it was started or resumed: it could not be carried
    #: out on them, or they are parked (again), or were to go on and have ended as failed. At most four times as
    #: many, and 20 to 500, of its tasks are under way at a time.
    max_failures: Optional[int]
    #: Maximum number of tasks that it decides on in a minute, on average.
    per_minute: Optional[int]
    #: Decides on this many tasks, and pauses until a person resumes it. A cancel decides on the selected tasks
    #: above one with it.
    sample: Optional[int]


class ParentView(TypedDict):
    """The parent of a task, as clients see it."""

    #: Its place among the tasks of that step, from 0.
    place: int
    #: Number of the parent's step that waits for it. Its name stands in the parent's `steps`: a child does not
    #: read its parent.
    step: StepNo
    #: The parent.
    task_id: TaskId


class PassView(TypedDict):
    """A pass of a reconciler."""

    #: What it did, by name.
    counts: Dict[str, int]
    #: Since its end.
    seconds_ago: int


class PastDecision(TypedDict):
    """A decision about tasks of a cause, and how those stand now on which it was carried out."""

    #: What was done with each task.
    action: BulkAction
    #: Who has started it.
    actor: str
    #: When it was started.
    at: str
    #: Reason, for the audit.
    note: str
    #: Id of the operation.
    operation: str
    #: How its tasks stand now.
    results: BulkResults


class PauseView(TypedDict):
    """A pause.

    Times are RFC 3339 in UTC.
    """

    #: Who has paused it.
    by: str
    #: Reason, for the audit.
    note: str
    #: Since when.
    since: str


class _PauseWorkersRequestMust(TypedDict):
    #: Reason, for the audit.
    note: str


class _PauseWorkersRequestMay(TypedDict, total=False):
    #: Who decides, for the audit.
    actor: Optional[str]
    #: Which processes of the machine: `worker`, `api`, or `dev`.
    role: str


class PauseWorkersRequest(_PauseWorkersRequestMust, _PauseWorkersRequestMay):
    """Body of `POST /api/workers/{machine}/pause` and `/resume`."""


class _PayloadsMust(TypedDict):
    #: Of the steps that have an output, in order.
    outputs: List[StepOutput]
    #: The request; `null` where it was erased.
    request: Any
    #: Id of the task.
    task_id: TaskId


class _PayloadsMay(TypedDict, total=False):
    #: What it was before an operator changed it, the first one first.
    earlier_requests: List[Any]


class Payloads(_PayloadsMust, _PayloadsMay):
    """Answer of `GET /api/tasks/{id}/payloads`: what was handed in, and what steps have put out so far."""


class Percentiles(TypedDict):
    """How long something took, in milliseconds.

    Each is at most 5 %, or half a millisecond, away from what was measured.
    """

    #: How often it was measured.
    count: int
    #: Half took no longer.
    p50_ms: int
    #: 95 of 100 took no longer.
    p95_ms: int
    #: 99 of 100 took no longer.
    p99_ms: int


class _PlannedUndoMust(TypedDict):
    #: Whether its undo has given up before: only an operator's retry tries it again.
    gave_up: bool
    #: Whether it is unknown how far it came: its undo gets no output, unless a probe finds one.
    in_doubt: bool
    #: Number of the step.
    no: StepNo
    #: State of the step.
    status: StepStatus
    #: Name of the step.
    step: str
    #: The function that undoes it, or `built-in`.
    undo: str
    #: Undo tries so far.
    undo_attempts: Attempt


class _PlannedUndoMay(TypedDict, total=False):
    #: The function that finds out first how far it came, where it is in doubt and there is one.
    probe: Optional[str]


class PlannedUndo(_PlannedUndoMust, _PlannedUndoMay):
    """One step's undo in a plan."""


class PoisonMessages(TypedDict):
    """Answer of `GET /api/poison-messages`."""

    #: The last kept first, at most 200.
    items: List[PoisonView]


class PoisonView(TypedDict):
    """A message that no host can read.

    It is kept, and is not delivered again.
    """

    #: When it was kept.
    at: str
    #: Id of the dead letter.
    id: str
    #: Its bytes; of a long one the first 64 KiB. What is no UTF-8 is replaced.
    payload: str
    #: The queue that it came from.
    queue: str
    #: Why it is not acted on.
    reason: str
    #: How many bytes there were.
    size_bytes: int
    #: Names the message in its queue.
    source: str
    #: The subject that it was found under.
    subject: str


class _PredecessorViewMust(TypedDict):
    #: Its id. Retention may have deleted it.
    task_id: TaskId


_PredecessorViewMay = TypedDict(
    "_PredecessorViewMay",
    {
        #: The step from which it runs again; missing: from the start.
        "from": "Optional[str]",
    }, total=False,
)


class PredecessorView(_PredecessorViewMust, _PredecessorViewMay):
    """The task that another one runs again."""


class Progress(TypedDict):
    """How far a task has come."""

    #: Steps that completed or were skipped.
    done: int
    #: All steps.
    total: int


class ProgressEvent(TypedDict):
    """How far the running steps of a task say they are: an event without an id.

    A hint: it may be late, or missing.
    """

    #: By the names of steps.
    steps: Dict[str, StepProgress]


class _QueueRequestMust(TypedDict):
    #: Reason, for the audit.
    note: str


class _QueueRequestMay(TypedDict, total=False):
    #: Who decides, for the audit.
    actor: Optional[str]


class QueueRequest(_QueueRequestMust, _QueueRequestMay):
    """Body of `POST /api/queues/{name}/pause` and `/resume`."""


class _QueueViewMust(TypedDict):
    #: Tasks that wait to be claimed: those that are submitted or dispatched.
    depth: int
    #: Tasks that came to wait on it in a minute, over the last five minutes at most, as the processes have counted
    #: that are alive.
    in_per_minute: float
    #: Its name; that of an API process ends in `.api`.
    name: str
    #: The same of tasks that wait on it no more: they were claimed, or ended without.
    out_per_minute: float
    #: Tasks of all tenants that have not ended and were offered on it last, by state.
    tasks: Dict[str, int]


class _QueueViewMay(TypedDict, total=False):
    #: After how many seconds none would wait, were it to go on like this; missing: none waits, or they do not
    #: become fewer.
    empty_in_seconds: Optional[int]
    #: Since when the one of them has waited that waits for the longest time, in whole seconds; missing: none
    #: waits.
    oldest_seconds: Optional[int]
    #: Since when it is paused, and why; missing: it is not.
    paused: Optional[PauseView]


class QueueView(_QueueViewMust, _QueueViewMay):
    """A queue."""


class Rate(TypedDict):
    """Maximum number of starts in a period, evenly spaced."""

    #: ... in each period of this length, as in `"1s"`.
    per: str
    #: Number of starts ...
    starts: int


class RecentTurnView(TypedDict):
    """A turn that has ended."""

    #: When it ended.
    ended_at: str
    #: Attempts of steps and undos that failed in it.
    failed_attempts: int
    #: How the turn has ended.
    outcome: TurnOutcome
    #: Id of the task.
    task_id: TaskId
    #: Declared name of its type.
    task_type: str
    #: From the claim to the end, in milliseconds.
    took_millis: int


class RecoveriesAnswer(TypedDict):
    """Answer to it."""

    #: What its type allows (`max_recoveries`).
    allowed: int
    #: What counts now.
    recovery_attempts: int
    #: Its state; the same as before.
    status: TaskStatus
    #: Id of the task.
    task_id: TaskId


class _RecoveriesRequestMust(TypedDict):
    #: Why, for the audit.
    note: str
    #: New value of the counter of consecutive host losses; 0 to `max_recoveries` of the task's type.
    recovery_attempts: int


class _RecoveriesRequestMay(TypedDict, total=False):
    #: Who, by the caller's own words: they stand behind the note. The audit's actor is the caller.
    actor: Optional[str]


class RecoveriesRequest(_RecoveriesRequestMust, _RecoveriesRequestMay):
    """Body of `POST /api/tasks/{id}/recoveries`."""


class RefusedFor(TypedDict):
    """A reason for which tasks would be refused."""

    #: The reason, as text.
    reason: str
    #: Number of tasks.
    tasks: int


class _ResetLimitRequestMust(TypedDict):
    #: Reason, for the audit.
    note: str


class _ResetLimitRequestMay(TypedDict, total=False):
    #: Who decides, for the audit.
    actor: Optional[str]


class ResetLimitRequest(_ResetLimitRequestMust, _ResetLimitRequestMay):
    """Body of `POST /api/limits/{name}/reset`."""


_ResolveRequestMust = TypedDict(
    "_ResolveRequestMust",
    {
        #: What has become of it.
        "as": "SettledAs",
        #: Why, for the audit.
        "note": "str",
    },
)


class _ResolveRequestMay(TypedDict, total=False):
    #: Who, by the caller's own words: they stand behind the note. The audit's actor is the caller.
    actor: Optional[str]
    #: The step's output, with `done` only; it must fit the declared type. A missing one counts as `null`.
    output: Any
    #: The step that is settled; missing: the whole task, which then ends as Resolved.
    step: Optional[str]
    #: The task that has done it, with `redriven` only.
    task: Optional[TaskId]


class ResolveRequest(_ResolveRequestMust, _ResolveRequestMay):
    """Body of `POST /api/tasks/{id}/resolve`."""


class ResultLink(TypedDict):
    """Answer to it."""

    #: Until when: RFC 3339 in UTC.
    expires_at: str
    #: Where the file is: path and query on the server that has answered. Its holder needs no credential.
    url: str


class RetryPolicy(TypedDict):
    """When and how often a step, or an undo, is tried again.

    A value of neutral data, usable in a `const`: ``` # use counterstep_contracts::RetryPolicy; pub const ZIP_RETRY:
    RetryPolicy = RetryPolicy::exponential('500ms').max_retries(3).cap('10s'); ``` An impossible policy is an error
    of the compiler: the constructors panic during constant evaluation.
    """

    #: Limit of a single attempt, a fresh one each; `None`: the limit of the settings (10 minutes by default).
    attempt_timeout: Optional[str]
    #: How the delays grow.
    backoff: Backoff
    #: First delay.
    base: str
    #: No delay is longer.
    cap: str
    #: Spread each delay evenly over the upper half of its length, so that a herd does not come back together.
    jitter: bool
    #: Tries after the first one.
    max_retries: int


class _RetryRequestMust(TypedDict):
    #: Why, for the audit.
    note: str


class _RetryRequestMay(TypedDict, total=False):
    #: Who, by the caller's own words: they stand behind the note. The audit's actor is the caller.
    actor: Optional[str]
    #: `forward`: the steps that gave up run again. `undo`: everything is undone. Missing: `forward` for a dead
    #: letter, `undo` for a task whose undo gave up.
    direction: Optional[Direction]
    #: Fields of the request that are to be others, in place of `request`: a JSON merge patch of RFC 7396.
    patch: Any
    #: Another request, with `forward`: steps that start from then on are given it. It must fit the type and have
    #: the same files.
    request: Any


class RetryRequest(_RetryRequestMust, _RetryRequestMay):
    """Body of `POST /api/tasks/{id}/retry`."""


class _RunAgainRequestMust(TypedDict):
    #: Why, for the audit.
    note: str


_RunAgainRequestMay = TypedDict(
    "_RunAgainRequestMay",
    {
        #: Who, by the caller's own words: they stand behind the note. The audit's actor is the caller.
        "actor": "Optional[str]",
        #: The step from which it runs: the outputs of the steps before it are kept. Missing: from the start.
        "from": "Optional[str]",
        #: Fields of the request that are to be others, in place of `request`: a JSON merge patch of RFC 7396.
        "patch": "Any",
        #: Another request. It must fit the type and have the same files.
        "request": "Any",
    }, total=False,
)


class RunAgainRequest(_RunAgainRequestMust, _RunAgainRequestMay):
    """Body of `POST /api/tasks/{id}/run-again`."""


class _RunningTaskViewMust(TypedDict):
    #: Id of the task.
    task_id: TaskId


class _RunningTaskViewMay(TypedDict, total=False):
    #: When the process has claimed it.
    since: Optional[str]
    #: The step that runs; of several the one that has begun last.
    step: Optional[str]
    #: Declared name of its type; missing: it waits for room, a permit or its claim.
    task_type: Optional[str]


class RunningTaskView(_RunningTaskViewMust, _RunningTaskViewMay):
    """A task that a process runs."""


class _SampleViewMust(TypedDict):
    #: When it looked.
    at: str
    #: Tasks that ended in that time, by how they did; of types that the process knows.
    ended: Dict[str, int]
    #: The time since the look before, in milliseconds: in it came and went what is counted next.
    millis: int
    #: Tasks that these processes may run at a time.
    slots: int
    #: Tasks that they ran.
    slots_busy: int
    #: Tasks that were submitted in that time.
    submitted: int
    #: Tasks that had not ended, by state.
    tasks: Dict[str, int]
    #: Tasks that waited to be claimed, by queue.
    waiting: Dict[str, int]
    #: Processes that were seen lately.
    workers_alive: int
    #: Processes that were not, and did not say that they stop.
    workers_lost: int


class _SampleViewMay(TypedDict, total=False):
    #: Of the task that could be claimed for the longest time.
    oldest_due_seconds: Optional[int]


class SampleView(_SampleViewMust, _SampleViewMay):
    """What one look has found.

    Numbers are over all tenants.
    """


class _SavedViewMust(TypedDict):
    #: Who has saved it last.
    by: str
    #: Its name, as `view:NAME` has it.
    name: str
    #: The search.
    q: str
    #: When.
    updated_at: str


class _SavedViewMay(TypedDict, total=False):
    #: The columns that the page shows.
    columns: Optional[str]


class SavedView(_SavedViewMust, _SavedViewMay):
    """A saved view."""


class _ScheduleSpecMust(TypedDict):
    #: The task type, by its declared name or its route.
    type: str


class _ScheduleSpecMay(TypedDict, total=False):
    #: Maximum number of due times that fire at once, the newest; those before them are skipped.
    catch_up_limit: int
    #: Five fields (minute, hour, day of the month, month, day of the week), six with the second first, or a name
    #: like `@daily`.
    cron: Optional[str]
    #: A due time counts as missed when it is later than this.
    grace: str
    #: What becomes of due times that passed unfired.
    misfire: Misfire
    #: What becomes of a due time while the last task runs.
    overlap: Overlap
    #: The request that each task is submitted with.
    request: Any
    #: Once, then.
    run_at: Optional[str]
    #: In which the expression is meant, as `Europe/Berlin`; UTC where it is missing.
    zone: Optional[str]


class ScheduleSpec(_ScheduleSpecMust, _ScheduleSpecMay):
    """Body of `PUT /api/schedules/{name}`.

    Either `cron` or `run_at`.
    """


class _ScheduleViewMust(TypedDict):
    #: Maximum number of due times that fire at once, the newest; those before them are skipped.
    catch_up_limit: int
    #: Made.
    created_at: str
    #: A due time counts as missed when it is later than this.
    grace: str
    #: What becomes of due times that passed unfired.
    misfire: Misfire
    #: Name of the schedule.
    name: str
    #: Where it comes from.
    origin: ScheduleOrigin
    #: What becomes of a due time while the last task runs.
    overlap: Overlap
    #: Whether it is paused.
    paused: bool
    #: The request that each task is submitted with.
    request: Any
    #: Grows with each change and each firing.
    revision: int
    #: The task type, by its declared name or its route.
    type: str
    #: Last change, or last firing.
    updated_at: str


class _ScheduleViewMay(TypedDict, total=False):
    #: Five fields (minute, hour, day of the month, month, day of the week), six with the second first, or a name
    #: like `@daily`.
    cron: Optional[str]
    #: The due time that fired last.
    last_due_at: Optional[str]
    #: When it fired last, by a due time or by hand.
    last_fired_at: Optional[str]
    #: The task that it submitted last.
    last_task: Optional[TaskId]
    #: Its next due time; missing where none will come, and while it is paused.
    next_due_at: Optional[str]
    #: Once, then.
    run_at: Optional[str]
    #: The next due times, as many as were asked for with `?next=`.
    upcoming: List[str]
    #: What is refused of its words today: an earlier version took them, and it goes on as it did.
    warning: Optional[str]
    #: In which the expression is meant, as `Europe/Berlin`; UTC where it is missing.
    zone: Optional[str]


class ScheduleView(_ScheduleViewMust, _ScheduleViewMay):
    """A schedule as `GET /api/schedules/{name}` shows it."""


class _SetLimitRequestMust(TypedDict):
    #: Reason, for the audit.
    note: str


class _SetLimitRequestMay(TypedDict, total=False):
    #: Who decides, for the audit.
    actor: Optional[str]
    #: Maximum number of attempts that run at a time; missing: no maximum.
    at_once: Optional[int]
    #: Maximum number of attempts that start in a period; missing: no maximum.
    rate: Optional[Rate]


class SetLimitRequest(_SetLimitRequestMust, _SetLimitRequestMay):
    """Body of `PUT /api/limits/{name}`: values in place of those that are declared.

    At least one of them.
    """


_SettledMust = TypedDict(
    "_SettledMust",
    {
        #: What has become of it.
        "as": "SettledAs",
    },
)


class _SettledMay(TypedDict, total=False):
    #: The task that has done it, with `redriven`.
    task: Optional[TaskId]


class Settled(_SettledMust, _SettledMay):
    """How a person has settled a task."""


class SignalAnswer(TypedDict):
    """Answer to a signal: 202.

    The same for each repetition.
    """

    #: When it was accepted.
    received_at: str
    #: The signal's name, which is that of the step that waits for it.
    signal: str
    #: Id of the task.
    task_id: TaskId


class _StatusViewMust(TypedDict):
    #: Tasks that have not ended.
    tasks: List[TaskCountView]
    #: Processes that were seen lately.
    workers_alive: int
    #: Processes that are lost.
    workers_lost: int


class _StatusViewMay(TypedDict, total=False):
    #: Of the task that could be claimed for the longest time.
    oldest_due_seconds: Optional[int]
    #: Since the last change of the running task that has changed least lately.
    oldest_running_seconds: Optional[int]
    #: Of the oldest event that is not published.
    oldest_unpublished_seconds: Optional[int]


class StatusView(_StatusViewMust, _StatusViewMay):
    """What is under way, counted.

    Ages are in whole seconds; a missing one: there is none.
    """


class StepChildren(TypedDict):
    """How the tasks stand that a step has submitted so far."""

    #: How many of them are in each state. A state that none is in is left out.
    by_status: Dict[str, int]
    #: Name of the step.
    step: str


class StepDecl(TypedDict):
    """One step of a task type."""

    #: What keeps its attempts from something that is down. An undo never asks it.
    breaker: Optional[NamedBreaker]
    #: What runs when it has given up.
    fallback: Optional[FallbackDecl]
    #: Steps of one group run side by side; they share host and neighbourhood.
    group: Optional[str]
    #: An attempt has to say that it is alive within each such time, or it has timed out; `None`: it need not.
    heartbeat: Optional[str]
    #: Whether it takes a processor or much memory for itself: few of these run side by side in a process.
    heavy: bool
    #: Where it runs.
    host: Host
    #: What it reads.
    inputs: List[InputDecl]
    #: Whether its code, its undo's and its probe's, runs in processes of their own; `None`: in the process that
    #: runs the task.
    isolate: Optional[IsolateDecl]
    #: Who wrote its code.
    kind: StepKind
    #: What limits its attempts over all processes. An undo never asks it.
    limit: Optional[Limit]
    #: Its function's name; unique within the type.
    name: str
    #: Its place in the order; unique within the type.
    no: StepNo
    #: What its giving up leads to.
    on_exhausted: OnExhausted
    #: What its probe's giving up leads to.
    on_probe_failure: OnProbeFailure
    #: Its output's type as written.
    output: str
    #: The probe's function name: it finds out how far an attempt in doubt came.
    probe: Optional[str]
    #: How its probe is retried; `None`: it has none.
    probe_retry: Optional[NamedPolicy]
    #: How it is retried.
    retry: NamedPolicy
    #: Bytes that its scratch files may take on a host; `None`: as many as there are.
    scratch: Optional[str]
    #: Limit of one attempt; `None`: that of the policy, else that of the settings.
    timeout: Optional[str]
    #: How it is undone.
    undo: UndoDecl
    #: How its undo is retried.
    undo_retry: NamedPolicy
    #: What it waits for; `None`: it runs code.
    waits: Optional[WaitDecl]
    #: The condition's function name; the step is skipped where it says no.
    when: Optional[str]
    #: How long it goes on where the database cannot be reached.
    when_cut_off: WhenCutOff


class StepDurations(TypedDict):
    """How long the attempts at a step took that succeeded or failed, from the change that started one to the
    change that ended it.

    What is part of the submission is not counted; and of many tasks, the attempts of some.
    """

    #: How often it was measured.
    count: int
    #: The longest of them.
    max_ms: int
    #: Half took no longer.
    p50_ms: int
    #: 95 of 100 took no longer.
    p95_ms: int
    #: 99 of 100 took no longer.
    p99_ms: int
    #: The task of the longest one.
    slowest: TaskId
    #: Name of the step.
    step: str


class StepOutput(TypedDict):
    """What a step has put out."""

    #: What it was.
    output: Any
    #: Name of the step.
    step: str


class _StepProgressMust(TypedDict):
    #: When it said so.
    at: str
    #: How far it is, in units of the step's own.
    done: int
    #: Out of how much; 0 where the step does not know.
    total: int


class _StepProgressMay(TypedDict, total=False):
    #: What it is at, where it says so: one line.
    message: Optional[str]
    #: 0 to 100, where the total is known.
    percent: Optional[int]


class StepProgress(_StepProgressMust, _StepProgressMay):
    """How far the running attempt of a step, or of its undo, has come.

    A hint: it may be late, or missing.
    """


class _StepViewMust(TypedDict):
    #: Forward tries so far.
    attempts: Attempt
    #: Name of the step.
    name: str
    #: Number of the step.
    no: StepNo
    #: State of the step.
    status: StepStatus
    #: Undo tries so far.
    undo_attempts: Attempt


class _StepViewMay(TypedDict, total=False):
    #: Its last error.
    error: Optional[str]
    #: How far its running attempt says it is, where it says anything and that is known here.
    progress: Optional[StepProgress]


class StepView(_StepViewMust, _StepViewMay):
    """A step as a client sees it."""


class Suggestion(TypedDict):
    """An expression that begins as what was typed."""

    #: What the last term of it is.
    about: str
    #: The whole expression.
    q: str


class _SwitchRequestMust(TypedDict):
    #: Why: what clients are told whose submissions are refused.
    note: str


class _SwitchRequestMay(TypedDict, total=False):
    #: Who decides, for the audit.
    actor: Optional[str]


class SwitchRequest(_SwitchRequestMust, _SwitchRequestMay):
    """Body of `POST /api/task-types/{type}/disable` and `/enable`."""


class _SwitchViewMust(TypedDict):
    #: The type's declared name.
    type: str


class _SwitchViewMay(TypedDict, total=False):
    #: Who disabled it, or enabled it last.
    by: Optional[str]
    #: Since when it takes none; missing: it takes them.
    disabled_since: Optional[str]
    #: The probe that is under way.
    probe: Optional[TaskId]
    #: When the next submission is taken as a probe; missing on a disabled type: a person has to enable it.
    probe_from: Optional[str]
    #: Why; of an enabled type, why it was enabled last.
    reason: Optional[str]


class SwitchView(_SwitchViewMust, _SwitchViewMay):
    """Whether a task type takes submissions.

    Times are RFC 3339 in UTC.
    """


class TaskCountView(TypedDict):
    """Number of tasks of a queue in a state."""

    #: Number of tasks.
    count: int
    #: The queue on which they were offered last.
    queue: str
    #: The state.
    status: TaskStatus


class _TaskSummaryMust(TypedDict):
    #: When it was submitted.
    created_at: str
    #: State of the task.
    status: TaskStatus
    #: Id of the task.
    task_id: TaskId
    #: Its type's declared name.
    task_type: str
    #: When it was last changed.
    updated_at: str


class _TaskSummaryMay(TypedDict, total=False):
    #: When it came to its terminal state.
    finished_at: Optional[str]
    #: What it was labelled with when it was submitted.
    labels: Labels


class TaskSummary(_TaskSummaryMust, _TaskSummaryMay):
    """One line of a list of tasks."""


class _TaskTypeViewMust(TypedDict):
    #: When failures make the type take no more submissions; `None`: never, unless the settings say so.
    auto_disable: ShownAutoDisable
    #: Whether a client may cancel it.
    cancellable: bool
    #: Digest of what a task in flight depends on.
    definition_hash: str
    #: How its tasks share what there is.
    flow: FlowDecl
    #: The names of the labels that it makes of each request.
    labels: List[str]
    #: How long a claim holds without a heartbeat; `None`: that of the settings.
    lease: Optional[str]
    #: Take-backs of a lost task, without progress between them, before it is undone instead.
    max_recoveries: int
    #: Its name as declared, `CreateZipFromFiles`.
    name: str
    #: What happens when a host is lost while the task goes forward. An undo always continues on another host.
    on_lost: OnLost
    #: What an undo that gave up leads to.
    on_undo_failure: OnUndoFailure
    #: The queue its worker steps are dispatched on; the API's is `{queue}.api`.
    queue: str
    #: The request's type as written.
    request: str
    #: The response's type as written.
    response: str
    #: In ascending order of their numbers.
    steps: List[StepDecl]
    #: The address that takes its requests.
    submit_to: str
    #: Whether it takes submissions.
    switch: SwitchView
    #: Deadline since submit, waits included, undo not.
    timeout: Optional[str]
    #: Grows when running tasks could not go on under the new declaration.
    version: int


class _TaskTypeViewMay(TypedDict, total=False):
    #: JSON schemas of the bodies of the signals that its steps wait for, by the name of the step; without those of
    #: types that have none.
    signals: Dict[str, Any]


class TaskTypeView(_TaskTypeViewMust, _TaskTypeViewMay):
    """A task type as it is listed."""


class _TaskViewMust(TypedDict):
    #: Whether a cancel was accepted.
    cancel_requested: bool
    #: When it was submitted.
    created_at: str
    #: Completed steps of all steps.
    progress: Progress
    #: Times it was taken back from a lost host since it last made progress.
    recovery_attempts: int
    #: Whether it ended with effects that were not undone.
    residue: bool
    #: Grows with every change; the ETag is made of it.
    revision: int
    #: State of the task.
    status: TaskStatus
    #: Steps in the order of the declaration.
    steps: List[StepView]
    #: Id of the task.
    task_id: TaskId
    #: Its type's declared name.
    task_type: str
    #: When it was last changed.
    updated_at: str
    #: Its type's version.
    version: int


class _TaskViewMay(TypedDict, total=False):
    #: How the tasks stand that its steps have submitted, in the order of the steps. A step without any is left
    #: out.
    children: List[StepChildren]
    #: When it will try again, where it is waiting.
    due_at: Optional[str]
    #: Why it did not complete.
    failure: Optional[FailureView]
    #: When it came to its terminal state.
    finished_at: Optional[str]
    #: What it was labelled with when it was submitted.
    labels: Labels
    #: The task that has submitted it, where one has.
    parent: Optional[ParentView]
    #: The task that it runs again, where it does.
    predecessor: Optional[PredecessorView]
    #: The typed response, once completed.
    response: Any
    #: How a person has settled it, where one has.
    settled: Optional[Settled]
    #: The tasks that run it again, once it has ended: the last 20, the newest first.
    successors: List[TaskId]
    #: The trace of the request that submitted it, where it has one: 32 hexadecimal digits.
    trace_id: Optional[str]
    #: What it waits for, where it is waiting.
    waiting_for: Optional[WaitReason]


class TaskView(_TaskViewMust, _TaskViewMay):
    """A task as `GET /api/tasks/{id}` shows it."""


class _TypeDurationsMust(TypedDict):
    #: How many tasks ended, or were parked, in each state: a parked one counts each time it was found parked. A
    #: state without any is left out.
    ended: Dict[str, int]
    #: The same by the hour, the oldest first. Hours in which no task ended or was parked are left out.
    hours: List[HourDurations]
    #: Its steps, the one with the longest 95th percentile first.
    steps: List[StepDurations]


class _TypeDurationsMay(TypedDict, total=False):
    #: When the last task ended that is counted, of all tenants; missing where no reconciler has counted any.
    counted_until: Optional[str]
    #: Names of the labels by whose values tasks are counted too, without their steps.
    labels: List[str]
    #: Of 100 tasks that completed, how many took less time than the one that was asked for, rounded down.
    slower_than: Optional[int]
    #: How long those took that completed, from their submission; missing where none did.
    tasks: Optional[Percentiles]
    #: Of the label that was asked for: the values that tasks had in this time.
    values: List[str]


class TypeDurations(_TypeDurationsMust, _TypeDurationsMay):
    """The tasks of a type that ended or were parked in a range of time, and their steps."""


class UndoPlan(TypedDict):
    """What an undo of the whole task would do now: answer of `GET /api/tasks/{id}/plan`."""

    #: Steps that started and that no undo touches, the latest start first.
    not_undone: List[NotUndone]
    #: One after another; the undos of one stage go side by side.
    stages: List[UndoStage]
    #: State of the task.
    status: TaskStatus
    #: Id of the task.
    task_id: TaskId
    #: What would have to happen for the plan to be carried out, or why that can never be.
    when: str


class _UndoStageMust(TypedDict):
    #: The latest start first.
    steps: List[PlannedUndo]


class _UndoStageMay(TypedDict, total=False):
    #: The parallel group, where the step is in one.
    group: Optional[str]


class UndoStage(_UndoStageMust, _UndoStageMay):
    """Undos that go side by side."""


class _UndoneStepMust(TypedDict):
    #: Of them those in which its undo has given up before.
    gave_up: int
    #: Of them those in which it is in doubt: it is not known how far it came.
    in_doubt: int
    #: Name of the step.
    step: str
    #: Its type's declared name.
    task_type: str
    #: Number of tasks in which it would be undone.
    tasks: int
    #: The function that undoes it, or `built-in`.
    undo: str


class _UndoneStepMay(TypedDict, total=False):
    #: Sums of the amounts in its outputs, by currency.
    amounts: List[Amount]


class UndoneStep(_UndoneStepMust, _UndoneStepMay):
    """A step that would be undone."""


class UnusualTask(TypedDict):
    """A task for which an operation would do something else than for most of its type."""

    #: How it differs, in words.
    differs: str
    #: The task.
    task_id: TaskId


class _ViewSpecMust(TypedDict):
    #: The search, as `GET /api/tasks?q=` takes it. It names no other view.
    q: str


class _ViewSpecMay(TypedDict, total=False):
    #: The columns that the page shows, as `labels,submitted`; missing: those that it shows anyway.
    columns: Optional[str]


class ViewSpec(_ViewSpecMust, _ViewSpecMay):
    """What is saved."""


class WebhookSecretsView(TypedDict):
    """The secrets with which webhooks of the caller's tenant are signed."""

    #: `whsec_` and Base64. Each webhook is signed with all of them: there are several while the operator replaces
    #: one.
    secrets: List[str]


class _WhyMust(TypedDict):
    #: Everything that it waits for, what matters most first. Never empty.
    because: List[WhyReason]
    #: What an operator can do about it: first what ends the first reason, where a call or a command does.
    operator_can: List[OperatorMove]
    #: State of the task.
    status: TaskStatus
    #: Id of the task.
    task_id: TaskId


class _WhyMay(TypedDict, total=False):
    #: What blocks it, where it is parked.
    cause: Optional[Cause]
    #: The id of its group, where it is parked: others have failed for the same cause.
    group: Optional[str]
    #: The task that has submitted it, where one has.
    parent: Optional[ParentView]


class Why(_WhyMust, _WhyMay):
    """What a task is waiting for: answer of `GET /api/tasks/{id}/why`."""


class _WhyReasonMust(TypedDict):
    #: For programs.
    code: WhyCode
    #: For people: what it waits for, and what to look at.
    detail: str


class _WhyReasonMay(TypedDict, total=False):
    #: Who holds the lease.
    owner: Optional[str]
    #: What has become of that process, where it has said anything of itself. Its lease alone decides.
    owner_state: Optional[WorkerState]
    #: The queue on which it was offered.
    queue: Optional[str]
    #: The steps concerned.
    steps: List[str]
    #: Those of the tasks that it has submitted for which a person has to decide, else the first that has not
    #: ended; or those that hold the places that it waits for, or come first: three at most.
    tasks: List[TaskId]
    #: Until when, where that is known.
    until: Optional[str]
    #: What a waiting task waits for.
    waiting_for: Optional[WaitReason]


class WhyReason(_WhyReasonMust, _WhyReasonMay):
    """One thing that a task waits for."""


class WorkerDetails(TypedDict):
    """Answer of `GET /api/workers/{worker_id}`: a process, what it runs, and what it ran last."""

    #: How many of these turns had a failed attempt.
    failures: FailureShare
    #: The same of the other processes that are alive, over those of their last turns whose tasks are of the same
    #: types.
    neighbours: NeighboursView
    #: Its last turns that have ended, at most a hundred, the last one first. A task that was given back and taken
    #: again is there more than once.
    recent: List[RecentTurnView]
    #: The tasks that it ran when it was seen last; of many the first hundred.
    running: List[RunningTaskView]
    #: The process, as the list has it.
    worker: WorkerView


class WorkerType(TypedDict):
    """A task type that a process can run."""

    #: Digest of its declaration.
    definition: str
    #: Declared name.
    name: str
    #: Version.
    version: int


class _WorkerViewMust(TypedDict):
    #: Runs of code that was abandoned and blocks its thread yet.
    abandoned_count: int
    #: Tasks at a time.
    concurrency: int
    #: Heavy steps that it runs at a time.
    heavy: int
    #: How many it ran when it was seen last.
    heavy_count: int
    #: Names this start of it, as leases and the audit do.
    id: str
    #: The machine's name.
    machine: str
    #: Version of the program.
    program: str
    #: The queues that it takes tasks from; none: it takes none.
    queues: List[str]
    #: `worker`, `api`, `reconciler`, or `dev`.
    role: str
    #: Which; of many the first hundred.
    running: List[TaskId]
    #: How many it ran when it was seen last.
    running_count: int
    #: When it was seen last.
    seen_at: str
    #: When it was seen first.
    started_at: str
    #: What has become of it.
    state: WorkerState
    #: What it can run.
    task_types: List[WorkerType]


class _WorkerViewMay(TypedDict, total=False):
    #: The queues that it could not fetch from when it was seen last; of many the first hundred. Tasks of them are
    #: found by polling.
    fetch_errors: List[FetchErrorView]
    #: Results that it keeps on its disk until the database takes them, of a worker on PostgreSQL.
    kept: Optional[KeptView]
    #: The last pass of a reconciler.
    last_pass: Optional[PassView]
    #: Bytes of memory that the process held when it was seen last; missing: its system has no such figure.
    memory_bytes: Optional[int]
    #: Since when it is paused, and why: it takes no tasks. Missing: it is not.
    paused: Optional[PauseView]
    #: Permits of limits that its attempts held then, by limit, and by tenant and label where it is one for each;
    #: of many the first hundred.
    permits: Dict[str, int]
    #: When it said that it stops.
    stopped_at: Optional[str]


class WorkerView(_WorkerViewMust, _WorkerViewMay):
    """A process, as it says of itself."""


class WorkersView(TypedDict):
    """Answer of `GET /api/workers`."""

    #: What is under way.
    status: StatusView
    #: The processes, the last seen first; at most 1,000.
    workers: List[WorkerView]


#: What has a limit for itself.
LimitScope = Dict[str, Any]

#: What a task type is disabled by, as it is shown.
ShownAutoDisable = Union[Optional[AutoDisable], Dict[str, Any]]

#: How a step is undone.
UndoDecl = Dict[str, Any]

#: What a step waits for. Such a step runs no code of its own: it has no attempts, and while it waits its task
#: holds neither a slot nor a lease.
WaitDecl = Dict[str, Any]
