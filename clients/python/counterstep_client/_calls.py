"""How the generated operations ask the API: with a query or JSON, and for JSON, a list page by page, or nothing."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from ._http import Transport, segment

#: In place of what is not sent: `None` is `null` in a body.
NOT_GIVEN: Any = ...


class Calls:
    def __init__(self, http: Transport) -> None:
        self._http = http

    def json(self, method: str, path: str, target: Sequence[str], **sent: Any) -> Any:
        return self._http.json(method, path_of(path, target), **options_of(**sent))

    def nothing(self, method: str, path: str, target: Sequence[str], **sent: Any) -> None:
        self._http.open(method, path_of(path, target), **options_of(**sent)).close()

    def items(self, method: str, path: str, target: Sequence[str], **sent: Any) -> Iterator[Any]:
        # What cannot be sent is refused now, and not when the first item is asked for.
        return self._pages(method, path_of(path, target), options_of(**sent))

    def _pages(self, method: str, path: str, options: Dict[str, Any]) -> Iterator[Any]:
        query = options.pop("query", [])
        cursor: List[Tuple[str, str]] = []
        while True:
            page = self._http.json(method, path, query=query + cursor, **options)
            yield from page["items"]
            if page.get("next_cursor") is None:
                return
            cursor = [("cursor", page["next_cursor"])]


def path_of(path: str, target: Sequence[str]) -> str:
    return path.format(*map(segment, target))


def options_of(
    query: Optional[Mapping[str, Any]] = None, body: Any = NOT_GIVEN, key: Optional[str] = None
) -> Dict[str, Any]:
    options: Dict[str, Any] = {}
    headers = {} if key is None else {"Idempotency-Key": key}
    if query is not None:
        options["query"] = [pair for name, value in query.items() for pair in _pairs(name, value)]
    if body is not NOT_GIVEN:
        given = {it: body[it] for it in body if body[it] is not NOT_GIVEN} if isinstance(body, dict) else body
        options["body"] = json.dumps(given, allow_nan=False).encode()
        headers["Content-Type"] = "application/json"
    return {**options, "headers": headers}


def _pairs(name: str, value: Any) -> Iterator[Tuple[str, str]]:
    if value is NOT_GIVEN or value is None:
        return
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ValueError("a time without a zone; expected an aware datetime")
        yield name, value.isoformat()
    elif isinstance(value, bool):
        yield name, "true" if value else "false"
    elif isinstance(value, (str, int, float)):
        yield name, str(value)
    else:
        for it in value:
            yield from _pairs(name, it)
