"""The stream of a task, opened again after each cut."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Dict, Iterator, List, Optional

from ._http import Transport, pieces
from .bodies import Event
from .errors import Problem, Unreachable, may_pass

#: Seconds without any byte after which a stream is opened again. The API sends a comment every 15 seconds.
SILENCE = 60.0

_TERMINAL = ("completed", "failed", "cancelled", "resolved")


@dataclass
class Message:
    """What a blank line completes."""

    event: str
    data: str


class Lines:
    """What has arrived of a `text/event-stream`. Lines end with LF or CR LF."""

    def __init__(self) -> None:
        self._rest = b""
        self._event, self._data = "", ""
        #: Seconds before the next connection, as the field `retry` has them.
        self.retry: Optional[float] = None

    def push(self, piece: bytes) -> List[Message]:
        """The messages that this completes."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        messages = []
        for line in lines:
            text = line.decode("utf-8", "replace").rstrip("\r")
            field, _, value = text.partition(":")
            value = value[1:] if value.startswith(" ") else value
            if not text:
                if self._data:
                    messages.append(Message(self._event, self._data))
                self._event, self._data = "", ""
            elif field == "event":
                self._event = value
            elif field == "data":
                self._data = f"{self._data}\n{value}" if self._data else value
            elif field == "retry" and value.isdigit():
                self.retry = int(value) / 1000
        return messages


class Following:
    """Where a stream stands: what has arrived, and when it is opened again."""

    def __init__(self, last: int, retry_for: float) -> None:
        self._last, self._retry_for = last, retry_for
        self._pause = 0.5
        self._lines = Lines()
        self._status: Optional[str] = None
        self._failing_since: Optional[float] = None

    def headers(self) -> Dict[str, str]:
        """Those of the next connection."""
        self._lines = Lines()
        return {"Accept": "text/event-stream", **({"Last-Event-ID": str(self._last)} if self._last else {})}

    def push(self, piece: bytes) -> List[Event]:
        """The events that this completes, each entry once."""
        self._failing_since = None
        events = []
        for message in self._lines.push(piece):
            data = json.loads(message.data)
            if message.event == "progress":
                events.append(Event("progress", None, data))
            elif not message.event and data["seq"] > self._last:
                self._last, self._status = data["seq"], data["status"]
                events.append(Event("entry", self._last, data))
        return events

    def pause(self, error: Optional[Exception]) -> Optional[float]:
        """Seconds until the next connection, after one that ended, with this error; `None`: the task has ended."""
        self._pause = self._pause if self._lines.retry is None else self._lines.retry
        if error is None and self._status in _TERMINAL:
            return None
        wait = self._pause
        if error is not None:
            if not may_pass(error):
                raise error
            wait = max(wait, getattr(error, "retry_after", None) or 0.0)
            self._failing_since = monotonic() if self._failing_since is None else self._failing_since
            if monotonic() + wait - self._failing_since > self._retry_for:
                raise error
        return wait


def follow(http: Transport, path: str, last: int, retry_for: float) -> Iterator[Event]:
    following = Following(last, retry_for)
    while True:
        error: Optional[Exception] = None
        try:
            answer = http.open("GET", path, headers=following.headers(), silence=SILENCE)
        except (Problem, Unreachable) as refused:
            error = refused
        else:
            with closing(answer):
                if answer.status == 204:
                    return
                arriving = pieces(answer)
                while True:
                    try:
                        piece = next(arriving, None)
                    except Unreachable as cut:
                        error = cut
                        break
                    if piece is None:
                        break
                    yield from following.push(piece)
        pause = following.pause(error)
        if pause is None:
            return
        sleep(pause)
