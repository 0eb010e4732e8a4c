"""The client: the generated operations, and by hand what needs more than a call with JSON."""

from __future__ import annotations

import ssl
from time import sleep
from typing import Any, Iterator, Mapping, Optional

from ._events import follow
from ._http import Transport, pieces
from ._multipart import Files
from ._operations import Operations
from ._patience import Repeating, Waiting
from ._submission import SILENCE, Submission, Target, accepted, link_of, path_of_file, path_of_task, request_of_link, writing
from ._types import ResultLink, TaskView
from .bodies import Accepted, Event
from .errors import Problem, Unreachable


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
        submission = Submission(task_type, request, key, labels, webhook, files)
        repeating = Repeating(self._retry_for)
        while True:
            try:
                options = submission.opened(self._http.timeout)
                return accepted(*self._http.json_and_headers("POST", submission.path, **options))
            except (Problem, Unreachable) as error:
                if not submission.may_repeat:
                    raise
                pause = repeating.pause(error)
            sleep(pause)

    def wait(self, task_id: str, timeout: Optional[float] = None) -> TaskView:
        """The task once it is at rest: it has ended, or is parked. `TimeoutError` after `timeout` seconds."""
        waiting = Waiting(task_id, timeout, self._http.timeout, self._retry_for)
        while True:
            error: Optional[Exception] = None
            try:
                view: TaskView = self._http.json("GET", path_of_task(task_id), **waiting.poll())
                if waiting.is_over(view["status"]):
                    return view
            except (Problem, Unreachable) as refused:
                error = refused
            sleep(waiting.pause(error))

    def events(self, task_id: str, last_event_id: int = 0) -> Iterator[Event]:
        """What happens to the task: each entry of its audit after `last_event_id` once and in order, and progress.

        Comes again after a cut, and ends when the task has ended.
        """
        return follow(self._http, f"{path_of_task(task_id)}/events", last_event_id, self._retry_for)

    def link(self, task_id: str, name: str, valid_for: Optional[str] = None) -> ResultLink:
        """A link to a stored file of the response: its holder needs no key until it expires.

        `valid_for` is a text such as `30m`, at most `7d`; one hour unless given.
        """
        link = self._http.json("POST", f"{path_of_file(task_id, name)}/link", **request_of_link(valid_for))
        return link_of(link, self._http.whole(link["url"]))

    def download(self, task_id: str, name: str, to: Target) -> int:
        """Writes a stored file of the response to a path, or to a file that is open for bytes. Returns its size.

        A path gets the whole file or none.
        """
        size = 0
        with self._http.open("GET", path_of_file(task_id, name), silence=SILENCE) as answer, writing(to) as file:
            for piece in pieces(answer):
                file.write(piece)
                size += len(piece)
        return size
