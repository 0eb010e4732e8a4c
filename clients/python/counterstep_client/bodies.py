"""Bodies of the HTTP interface, with the keys of the JSON. Times are texts of RFC 3339 in UTC.

A later version of the API may add keys, and values of `status`, `event` and `code`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, TypedDict


@dataclass(frozen=True)
class Accepted:
    """Answer to a submission."""

    task_id: str
    #: The state of the task when it was accepted.
    status: str
    #: Whether this repeats the answer to an earlier request with the same key.
    replayed: bool = False


@dataclass(frozen=True)
class Event:
    """One event of the stream of a task."""

    #: `entry`: `data` is an entry of the audit, with `status`, the state of the task after it.
    #: `progress`: `data["steps"]` has the progress of the running steps by their names; a hint.
    type: str
    #: The `seq` of the entry, which is the `last_event_id` to continue from; `None` for `progress`.
    id: Optional[int]
    data: Dict[str, Any]


class ResultLink(TypedDict):
    """A link to a stored file of a response."""

    #: Whole, with the address that the client has of the API.
    url: str
    expires_at: str


class StepProgress(TypedDict, total=False):
    done: int
    #: 0: unknown.
    total: int
    percent: int
    #: What it is at: one line.
    message: str
    at: str


class _StepView(TypedDict):
    no: int
    name: str
    status: str
    attempts: int
    undo_attempts: int


class StepView(_StepView, total=False):
    error: str
    progress: StepProgress


#: `class` is that of the error: `permanent`, `timed_out`, `deadline`, `lost` and others. `step` is missing where
#: no step gave up.
#: `blocked_by` is what blocks a parked task now, where that is another failure: that of an undo.
BlockView = TypedDict("BlockView", {"step": str, "class": str, "message": str}, total=False)
FailureView = TypedDict(
    "FailureView", {"step": str, "class": str, "message": str, "blocked_by": BlockView}, total=False
)


class TaskProgress(TypedDict):
    #: Steps that completed or were skipped.
    done: int
    #: All steps.
    total: int


class _TaskView(TypedDict):
    task_id: str
    task_type: str
    version: int
    #: `submitted`, `dispatched`, `running`, `waiting`, `completed`, `compensating`,
    #: `compensation_failed`, `failed`, `cancelled`, `dead_lettered` or `resolved`.
    status: str
    cancel_requested: bool
    residue: bool
    revision: int
    created_at: str
    updated_at: str
    recovery_attempts: int
    progress: TaskProgress
    steps: List[StepView]


class TaskView(_TaskView, total=False):
    """A task, as `GET /api/tasks/{id}` shows it."""

    labels: Dict[str, str]
    waiting_for: str
    due_at: str
    finished_at: str
    parent: Dict[str, Any]
    children: List[Dict[str, Any]]
    #: The trace of the request that submitted it: 32 hexadecimal digits.
    trace_id: str
    #: How a person has settled it: `as`, and the `task` that has done it.
    settled: Dict[str, Any]
    #: The task that it runs again: `task_id`, and the step `from` which it does.
    predecessor: Dict[str, Any]
    #: The tasks that run it again, the newest first.
    successors: List[str]
    #: Only where the task has completed.
    response: Any
    #: Only where it has not.
    failure: FailureView


AuditEntry = TypedDict(
    "AuditEntry",
    {
        "seq": int,
        "change_id": str,
        "at": str,
        "event": str,
        "from": str,
        "to": str,
        "step": str,
        "step_from": str,
        "step_to": str,
        "attempt": int,
        "epoch": int,
        "actor": str,
        "details": Any,
    },
    total=False,
)


class AttemptView(TypedDict, total=False):
    step: str
    direction: str
    attempt: int
    epoch: int
    outcome: str
    error: str
    started_at: str
    ended_at: str
    #: The process that ran it, as `worker:ID`.
    worker: str


class AuditTrail(TypedDict):
    task_id: str
    entries: List[AuditEntry]
    attempts: List[AttemptView]


class CancelAnswer(TypedDict):
    task_id: str
    status: str
    #: `nothing-had-run`, `undoing`, `stopping` or `already-cancelled`.
    outcome: str
    will_undo: List[str]


class SignalAnswer(TypedDict):
    task_id: str
    signal: str
    received_at: str


class _TaskSummary(TypedDict):
    task_id: str
    task_type: str
    status: str
    created_at: str
    updated_at: str


class TaskSummary(_TaskSummary, total=False):
    """One task of a list."""

    labels: Dict[str, str]
