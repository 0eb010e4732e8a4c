"""The client: the generated operations, and by hand what needs more than a call with JSON."""

from __future__ import annotations

import json
import math
import os
import random
import secrets
import ssl
from time import monotonic, sleep
from typing import Any, BinaryIO, Dict, Iterator, Mapping, Optional, Union, cast

from ._events import follow
from ._http import Body, Transport, header_of_labels, pieces, segment
from ._multipart import Files, Form
from ._operations import Operations
from ._types import ResultLink, TaskView
from .bodies import Accepted, Event
from .errors import Problem, Unreachable, may_pass

_AT_REST = ("completed", "failed", "cancelled", "resolved", "dead_lettered", "compensation_failed")

#: One long poll, in seconds.
_POLL = 30.0
#: How long the transfer of a file may make no progress, in seconds.
_SILENCE = 30.0


class Client(Operations):
    """A client of one API. Holds no connection; threads may share it.

    Its operations are grouped as the commands of the program are: `client.queues.pause("bookings", note="the bank moves")`.

    `timeout` is for an answer, or a piece of one, in seconds. `retry_for` is for how long a submission with a key is
    repeated, and how long `wait` and `events` tolerate an API that does not answer.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: Optional[str] = None,
        timeout: float = 10.0,
        retry_for: float = 60.0,
        tls: Optional[ssl.SSLContext] = None,
    ) -> None:
        self._http = Transport(base_url, api_key, timeout, tls)
        super().__init__(self._http)
        self._retry_for = retry_for

    def submit(
        self,
        task_type: str,
        request: Any,
        *,
        key: Optional[str] = None,
        labels: Optional[Mapping[str, str]] = None,
        webhook: Optional[str] = None,
        files: Optional[Files] = None,
    ) -> Accepted:
        """Submits a task; `task_type` is the route, such as `create-zip-from-files`.

        With a `key` (`Idempotency-Key`) the request is repeated while the API does not answer or asks to come again,
        and makes one task. Without a key, or with a path that can be read once only (a pipe), it is sent once. `webhook` is the address that gets a webhook each time that the
        task comes to rest.
        """
        form = Form(request, files) if files else None
        content = b"" if form else json.dumps(request, allow_nan=False).encode()
        headers: Dict[str, Union[str, bytes]] = {"Content-Type": form.content_type if form else "application/json"}
        if key is not None:
            headers["Idempotency-Key"] = key
        if labels:
            headers["Counterstep-Label"] = header_of_labels(labels)
        if webhook is not None:
            headers["Counterstep-Webhook"] = webhook

        def attempt() -> Accepted:
            body: Body = content
            if form:
                length, body = form.opened()
                headers.pop("Content-Length", None)
                if length is not None:
                    headers["Content-Length"] = str(length)
            answer, received = self._http.json_and_headers(
                "POST",
                f"/api/tasks/{segment(task_type)}",
                headers=headers,
                body=body,
                timeout=max(self._http.timeout, _SILENCE) if form else None,
            )
            replayed = received.get("Idempotency-Replayed") == "true"
            return Accepted(answer["task_id"], answer["status"], replayed)

        may_repeat = key is not None and not (form and form.is_read_once)
        return self._repeated(attempt) if may_repeat else attempt()

    def _repeated(self, attempt: Any) -> Accepted:
        started, pause = monotonic(), 0.25
        while True:
            try:
                return cast(Accepted, attempt())
            except (Problem, Unreachable) as error:
                if not _may_be_repeated(error):
                    raise
                asked = error.retry_after if isinstance(error, Problem) else None
                wait = random.uniform(pause / 2, pause) if asked is None else asked
                if monotonic() - started + wait > self._retry_for:
                    raise
            sleep(wait)
            pause = min(2 * pause, 8.0)

    def wait(self, task_id: str, timeout: Optional[float] = None) -> TaskView:
        """The task once it is at rest: it has ended, or is parked. `TimeoutError` after `timeout` seconds."""
        end = math.inf if timeout is None else monotonic() + timeout
        failing_since: Optional[float] = None
        while True:
            # An API that is about to stop answers a long poll at once.
            pause = 0.25
            poll = max(0.0, min(_POLL, end - monotonic()))
            try:
                view: TaskView = self._http.json(
                    "GET",
                    _path(task_id),
                    query=[("wait", f"{math.ceil(poll * 1000)}ms")] if poll else [],
                    timeout=poll + self._http.timeout,
                )
                failing_since = None
                if view["status"] in _AT_REST:
                    return view
            except (Problem, Unreachable) as error:
                failing_since = monotonic() if failing_since is None else failing_since
                pause = max(pause, getattr(error, "retry_after", None) or 0.0)
                # A pause beyond the limit is not begun.
                failing_for = monotonic() + max(0.0, min(pause, end - monotonic())) - failing_since
                if not may_pass(error) or failing_for >= self._retry_for:
                    raise
            if monotonic() >= end:
                raise TimeoutError(f"task {task_id} is not at rest after {timeout} seconds")
            sleep(max(0.0, min(pause, end - monotonic())))

    def events(self, task_id: str, last_event_id: int = 0) -> Iterator[Event]:
        """What happens to the task: each entry of its audit after `last_event_id` once and in order, and progress.

        Comes again after a cut, and ends when the task has ended.
        """
        return follow(self._http, f"{_path(task_id)}/events", last_event_id, self._retry_for)

    def link(self, task_id: str, name: str, valid_for: Optional[str] = None) -> ResultLink:
        """A link to a stored file of the response: its holder needs no key until it expires.

        `valid_for` is a text such as `30m`, at most `7d`; one hour unless given.
        """
        route = "/".join(segment(part) for part in name.split("/"))
        body = json.dumps({} if valid_for is None else {"valid_for": valid_for}).encode()
        headers = {"Content-Type": "application/json"}
        link = self._http.json("POST", f"{_path(task_id)}/result/{route}/link", headers=headers, body=body)
        return cast(ResultLink, {**link, "url": self._http.whole(link["url"])})

    def download(self, task_id: str, name: str, to: Union[str, "os.PathLike[str]", BinaryIO]) -> int:
        """Writes a stored file of the response to a path, or to a file that is open for bytes. Returns its size.

        A path gets the whole file or none.
        """
        route = "/".join(segment(part) for part in name.split("/"))
        with self._http.open("GET", f"{_path(task_id)}/result/{route}", silence=_SILENCE) as answer:
            arriving = pieces(answer)
            if not isinstance(to, (str, os.PathLike)):
                return _copy(arriving, to)
            target = os.fspath(to)
            part = f"{target}.{secrets.token_hex(4)}.part"
            try:
                with open(part, "xb") as file:
                    size = _copy(arriving, file)
                os.replace(part, target)
            except BaseException:
                if os.path.exists(part):
                    os.remove(part)
                raise
            return size


def _copy(arriving: Iterator[bytes], to: BinaryIO) -> int:
    size = 0
    for piece in arriving:
        to.write(piece)
        size += len(piece)
    return size


def _may_be_repeated(error: Exception) -> bool:
    """Whether a submission with a key may be sent again. 502 and 504: a proxy has no answer of the API."""
    if isinstance(error, Problem):
        return error.status in (429, 502, 503, 504) or (error.status, error.code) == (409, "in-progress")
    return isinstance(error, Unreachable)


def _path(task_id: str) -> str:
    return f"/api/tasks/{segment(task_id)}"
