"""The client for asyncio, which needs `counterstep-client[async]`: the same operations, and by hand what needs more than a call with JSON."""

from __future__ import annotations

import asyncio
import ssl
from types import TracebackType
from typing import Any, AsyncIterator, Mapping, Optional, Type

from ._async_http import AsyncTransport, pieces
from ._async_operations import AsyncOperations
from ._events import SILENCE as SILENCE_OF_EVENTS
from ._events import Following
from ._multipart import Files
from ._patience import Repeating, Waiting
from ._submission import SILENCE, Submission, Target, accepted, link_of, path_of_file, path_of_task, request_of_link, writing
from ._types import ResultLink, TaskView
from .bodies import Accepted, Event
from .errors import Problem, Unreachable

__all__ = ["AsyncClient"]


class AsyncClient(AsyncOperations):
    """A client of one API, for one event loop: `async with AsyncClient("http://127.0.0.1:8080") as client`.

    Its methods are those of `Client`, to be awaited; lists and `events` are for `async for`.
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
        self._http = AsyncTransport(base_url, api_key, timeout, tls)
        super().__init__(self._http)
        self._retry_for = retry_for

    async def aclose(self) -> None:
        await self._http.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self.aclose()

    async def submit(
        self,
        task_type: str,
        request: Any,
        *,
        key: Optional[str] = None,
        labels: Optional[Mapping[str, str]] = None,
        webhook: Optional[str] = None,
        files: Optional[Files] = None,
    ) -> Accepted:
        """Submits a task as `Client.submit` does: with a `key` as often as it takes, for one task."""
        submission = await asyncio.to_thread(Submission, task_type, request, key, labels, webhook, files)
        repeating = Repeating(self._retry_for)
        while True:
            try:
                options = await asyncio.to_thread(submission.opened, self._http.timeout)
                return accepted(*await self._http.json_and_headers("POST", submission.path, **options))
            except (Problem, Unreachable) as error:
                if not submission.may_repeat:
                    raise
                pause = repeating.pause(error)
            await asyncio.sleep(pause)

    async def wait(self, task_id: str, timeout: Optional[float] = None) -> TaskView:
        """The task once it is at rest: it has ended, or is parked. `TimeoutError` after `timeout` seconds."""
        waiting = Waiting(task_id, timeout, self._http.timeout, self._retry_for)
        while True:
            error: Optional[Exception] = None
            try:
                view: TaskView = await self._http.json("GET", path_of_task(task_id), **waiting.poll())
                if waiting.is_over(view["status"]):
                    return view
            except (Problem, Unreachable) as refused:
                error = refused
            await asyncio.sleep(waiting.pause(error))

    async def events(self, task_id: str, last_event_id: int = 0) -> AsyncIterator[Event]:
        """What happens to the task: each entry of its audit after `last_event_id` once and in order, and progress.

        Comes again after a cut, and ends when the task has ended.
        """
        path = f"{path_of_task(task_id)}/events"
        following = Following(last_event_id, self._retry_for)
        while True:
            error: Optional[Exception] = None
            try:
                async with self._http.open("GET", path, headers=following.headers(), silence=SILENCE_OF_EVENTS) as answer:
                    if answer.status_code == 204:
                        return
                    async for piece in pieces(answer):
                        for event in following.push(piece):
                            yield event
            except (Problem, Unreachable) as refused:
                error = refused
            pause = following.pause(error)
            if pause is None:
                return
            await asyncio.sleep(pause)

    async def link(self, task_id: str, name: str, valid_for: Optional[str] = None) -> ResultLink:
        """A link to a stored file of the response: its holder needs no key until it expires.

        `valid_for` is a text such as `30m`, at most `7d`; one hour unless given.
        """
        link = await self._http.json("POST", f"{path_of_file(task_id, name)}/link", **request_of_link(valid_for))
        return link_of(link, self._http.whole(link["url"]))

    async def download(self, task_id: str, name: str, to: Target) -> int:
        """Writes a stored file of the response to a path, or to a file that is open for bytes. Returns its size.

        A path gets the whole file or none.
        """
        size = 0
        async with self._http.open("GET", path_of_file(task_id, name), silence=SILENCE) as answer:
            with writing(to) as file:
                async for piece in pieces(answer):
                    await asyncio.to_thread(file.write, piece)
                    size += len(piece)
        return size
