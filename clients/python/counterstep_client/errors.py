"""What goes wrong: a refusal of the API, no answer, a webhook that is not authentic."""

from __future__ import annotations

import json
from email.utils import parsedate_to_datetime
from time import time
from typing import Any, Dict, Optional

from ._types import ProblemCode


class Problem(Exception):
    """An answer that is not a success: a problem document of the API (RFC 9457), or an answer of a proxy."""

    def __init__(self, status: int, document: Dict[str, Any], retry_after: Optional[float]) -> None:
        #: Status of the HTTP answer.
        self.status = status
        #: The stable code, such as `no-such-task`; `None`: the answer is no document of the API.
        self.code: Optional[ProblemCode] = document.get("code")
        #: What was wrong, what was expected, what to do.
        self.detail: str = document.get("detail") or document.get("title") or f"HTTP status {status}"
        #: The field, header or parameter that is wrong.
        self.pointer: Optional[str] = document.get("pointer")
        #: Seconds until a repetition makes sense, where the answer has them.
        self.retry_after = retry_after
        #: The whole document.
        self.document = document
        at = f" (at {self.pointer})" if self.pointer else ""
        super().__init__(f"{status} {self.code or 'without a problem document'}: {self.detail}{at}")


class Unreachable(ConnectionError):
    """No answer, or not all of it. Whether the request had an effect is unknown."""


class InvalidWebhook(ValueError):
    """A webhook whose signature, time or headers are not valid."""


def problem_of(status: int, body: bytes, retry_after: Optional[str]) -> Problem:
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        document = {}
    return Problem(status, document, _seconds(retry_after))


def _seconds(retry_after: Optional[str]) -> Optional[float]:
    """`Retry-After`: seconds, or a date, which proxies send."""
    if retry_after is None:
        return None
    try:
        return max(0.0, float(int(retry_after)))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time())
    except (TypeError, ValueError):
        return None


def may_pass(error: Exception) -> bool:
    """Whether a request without effects may be answered a little later."""
    if isinstance(error, Problem):
        return error.status in (408, 429) or error.status >= 500
    return isinstance(error, Unreachable)
