"""The stream of a task, opened again after each cut."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass
from time import monotonic, sleep
from typing import Iterator, List, Optional

from ._http import Transport, pieces
from .bodies import Event
from .errors import Problem, Unreachable, may_pass

#: Seconds without any byte after which a stream is opened again. The API sends a comment every 15 seconds.
_SILENCE = 60.0

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


def follow(http: Transport, path: str, last: int, retry_for: float) -> Iterator[Event]:
    pause = 0.5
    status: Optional[str] = None
    failing_since: Optional[float] = None
    while True:
        error: Optional[Exception] = None
        lines = Lines()
        try:
            headers = {"Accept": "text/event-stream", **({"Last-Event-ID": str(last)} if last else {})}
            answer = http.open("GET", path, headers=headers, silence=_SILENCE)
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
                    failing_since = None
                    for message in lines.push(piece):
                        data = json.loads(message.data)
                        if message.event == "progress":
                            yield Event("progress", None, data)
                        elif not message.event and data["seq"] > last:
                            last, status = data["seq"], data["status"]
                            yield Event("entry", last, data)
            pause = pause if lines.retry is None else lines.retry
        if error is None and status in _TERMINAL:
            return
        wait = pause
        if error is not None:
            if not may_pass(error):
                raise error
            wait = max(pause, getattr(error, "retry_after", None) or 0.0)
            failing_since = monotonic() if failing_since is None else failing_since
            if monotonic() + wait - failing_since > retry_for:
                raise error
        sleep(wait)
