"""Answers that are no bodies of the HTTP interface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Optional

from ._types import TaskStatus


@dataclass(frozen=True)
class Accepted:
    """Answer to a submission."""

    task_id: str
    #: The state of the task when it was accepted.
    status: TaskStatus
    #: Whether this repeats the answer to an earlier request with the same key.
    replayed: bool = False


@dataclass(frozen=True)
class Event:
    """One event of the stream of a task."""

    #: `entry`: `data` is an entry of the audit (`types.AuditEvent`), with `status`, the state of the task after it.
    #: `progress`: `data["steps"]` has the progress of the running steps by their names; a hint.
    type: str
    #: The `seq` of the entry, which is the `last_event_id` to continue from; `None` for `progress`.
    id: Optional[int]
    data: Dict[str, Any]
