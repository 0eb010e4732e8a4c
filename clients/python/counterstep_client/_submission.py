"""What is sent to submit a task, and where a download goes: the same for each way to send and to receive."""

from __future__ import annotations

import json
import os
import secrets
from contextlib import contextmanager
from typing import Any, BinaryIO, Dict, Iterator, Mapping, Optional, Union, cast

from ._http import header_of_labels, segment
from ._multipart import Files, Form
from ._types import ResultLink
from .bodies import Accepted

#: How long the transfer of a file may make no progress, in seconds.
SILENCE = 30.0

Target = Union[str, "os.PathLike[str]", BinaryIO]


class Submission:
    """A request to submit a task, to be sent once or several times."""

    def __init__(
        self,
        task_type: str,
        request: Any,
        key: Optional[str],
        labels: Optional[Mapping[str, str]],
        webhook: Optional[str],
        files: Optional[Files],
    ) -> None:
        self.path = f"/api/tasks/{segment(task_type)}"
        self._form = Form(request, files) if files else None
        self._content = b"" if self._form else json.dumps(request, allow_nan=False).encode()
        content_type = self._form.content_type if self._form else "application/json"
        self._headers: Dict[str, Union[str, bytes]] = {"Content-Type": content_type}
        if key is not None:
            self._headers["Idempotency-Key"] = key
        if labels:
            self._headers["Counterstep-Label"] = header_of_labels(labels)
        if webhook is not None:
            self._headers["Counterstep-Webhook"] = webhook
        self.may_repeat = key is not None and not (self._form and self._form.is_read_once)

    def opened(self, timeout: float) -> Dict[str, Any]:
        """The options of an attempt. Opens the files."""
        if self._form is None:
            return {"headers": self._headers, "body": self._content}
        length, body = self._form.opened()
        size = {} if length is None else {"Content-Length": str(length)}
        return {"headers": {**self._headers, **size}, "body": body, "timeout": max(timeout, SILENCE)}


def accepted(answer: Any, headers: Any) -> Accepted:
    return Accepted(answer["task_id"], answer["status"], headers.get("Idempotency-Replayed") == "true")


def path_of_task(task_id: str) -> str:
    return f"/api/tasks/{segment(task_id)}"


def path_of_file(task_id: str, name: str) -> str:
    return f"{path_of_task(task_id)}/result/{'/'.join(segment(part) for part in name.split('/'))}"


def request_of_link(valid_for: Optional[str]) -> Dict[str, Any]:
    body = json.dumps({} if valid_for is None else {"valid_for": valid_for}).encode()
    return {"headers": {"Content-Type": "application/json"}, "body": body}


@contextmanager
def writing(to: Target) -> Iterator[BinaryIO]:
    """A file that is open for bytes; behind a path, which gets all of it or nothing."""
    if not isinstance(to, (str, os.PathLike)):
        yield to
        return
    path = os.fspath(to)
    part = f"{path}.{secrets.token_hex(4)}.part"
    try:
        with open(part, "xb") as file:
            yield file
        os.replace(part, path)
    except BaseException:
        if os.path.exists(part):
            os.remove(part)
        raise


def link_of(answer: Any, url: str) -> ResultLink:
    return cast(ResultLink, {**answer, "url": url})
