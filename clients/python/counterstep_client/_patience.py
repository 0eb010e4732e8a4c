"""How long is waited for an API that does not answer, or not yet: pauses, and when to give up. Must not sleep."""

from __future__ import annotations

import math
import random
from time import monotonic
from typing import Any, Dict, Optional

from .errors import Problem, Unreachable, may_pass

_AT_REST = ("completed", "failed", "cancelled", "resolved", "dead_lettered", "compensation_failed")

#: One long poll, in seconds.
_POLL = 30.0


class Repeating:
    """A submission with a key, from its first attempt."""

    def __init__(self, retry_for: float) -> None:
        self._retry_for = retry_for
        self._started, self._pause = monotonic(), 0.25

    def pause(self, error: Exception) -> float:
        """Seconds until the next attempt, after this error."""
        if not _may_be_repeated(error):
            raise error
        asked = error.retry_after if isinstance(error, Problem) else None
        wait = random.uniform(self._pause / 2, self._pause) if asked is None else asked
        if monotonic() - self._started + wait > self._retry_for:
            raise error
        self._pause = min(2 * self._pause, 8.0)
        return wait


class Waiting:
    """Until a task is at rest."""

    def __init__(self, task_id: str, timeout: Optional[float], timeout_of_answer: float, retry_for: float) -> None:
        self._what, self._retry_for = f"task {task_id} is not at rest after {timeout} seconds", retry_for
        self._timeout_of_answer = timeout_of_answer
        self._end = math.inf if timeout is None else monotonic() + timeout
        self._failing_since: Optional[float] = None

    def poll(self) -> Dict[str, Any]:
        """The options of the next request."""
        poll = max(0.0, min(_POLL, self._end - monotonic()))
        query = [("wait", f"{math.ceil(poll * 1000)}ms")] if poll else []
        return {"query": query, "timeout": poll + self._timeout_of_answer}

    def is_over(self, status: str) -> bool:
        self._failing_since = None
        return status in _AT_REST

    def pause(self, error: Optional[Exception]) -> float:
        """Seconds until the next request, after an answer or this error."""
        # An API that is about to stop answers a long poll at once.
        pause = 0.25
        if error is not None:
            self._failing_since = monotonic() if self._failing_since is None else self._failing_since
            pause = max(pause, getattr(error, "retry_after", None) or 0.0)
            # A pause beyond the limit is not begun.
            failing_for = monotonic() + max(0.0, min(pause, self._end - monotonic())) - self._failing_since
            if not may_pass(error) or failing_for >= self._retry_for:
                raise error
        if monotonic() >= self._end:
            raise TimeoutError(self._what)
        return max(0.0, min(pause, self._end - monotonic()))


def _may_be_repeated(error: Exception) -> bool:
    """Whether a submission with a key may be sent again. 502 and 504: a proxy has no answer of the API."""
    if isinstance(error, Problem):
        return error.status in (429, 502, 503, 504) or (error.status, error.code) == (409, "in-progress")
    return isinstance(error, Unreachable)
