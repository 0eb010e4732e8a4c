"""Requests and answers. Each request has a connection of its own, so that none meets one that is just being closed."""

from __future__ import annotations

import http.client
import json
import ssl
from contextlib import contextmanager
from typing import Any, Iterable, Iterator, Mapping, Optional, Tuple, Union
from urllib.parse import quote, urlencode, urlsplit

from .errors import Unreachable, problem_of

#: As much of a problem document is read.
DOCUMENT = 64 * 1024
_CHUNK = 64 * 1024

Query = Iterable[Tuple[str, str]]
#: Values as bytes may have letters beyond Latin-1.
Headers = Mapping[str, Union[str, bytes]]
Body = Union[bytes, Iterable[bytes], None]


def segment(text: str) -> str:
    """One segment of a path, whatever it holds."""
    if text in ("", ".", ".."):
        raise ValueError(f"invalid segment of a path: {text!r}")
    return quote(text, safe="")


@contextmanager
def _connected(what: str) -> Iterator[None]:
    try:
        yield
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(f"{what}: {error or type(error).__name__}") from error


class _Sent:
    """A body on its way, and what went wrong where it comes from: that is no failure of the connection."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces
        self.error: Optional[OSError] = None

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._pieces
        except OSError as error:
            self.error = error
            raise


class Address:
    """Where the API is, and who asks."""

    def __init__(self, base_url: str, api_key: Optional[str]) -> None:
        base = urlsplit(base_url)
        if base.scheme not in ("http", "https") or not base.hostname or base.query or base.fragment or base.username:
            raise ValueError("invalid address; expected http://HOST:PORT or https://HOST")
        if api_key is not None and not (api_key.isascii() and api_key.isprintable() and api_key and " " not in api_key):
            raise ValueError("invalid API key; expected one line of visible ASCII characters")
        self._secure, self._origin = base.scheme == "https", f"{base.scheme}://{base.netloc}"
        self._host, self._port, self._prefix = base.hostname, base.port, base.path.rstrip("/")
        self._authorization: Headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}

    def target(self, path: str, query: Query) -> str:
        values = urlencode(list(query))
        return self._prefix + path + (f"?{values}" if values else "")

    def whole(self, path: str) -> str:
        """An address of the API from its path, which begins with where the API is mounted.

        That the base has too; what a proxy takes away the base has alone.
        """
        return self._origin + ("" if path.startswith(f"{self._prefix}/") else self._prefix) + path


class Transport(Address):
    def __init__(self, base_url: str, api_key: Optional[str], timeout: float, tls: Optional[ssl.SSLContext]) -> None:
        super().__init__(base_url, api_key)
        self._tls = tls
        self.timeout = timeout

    def open(
        self,
        method: str,
        path: str,
        query: Query = (),
        headers: Optional[Headers] = None,
        body: Body = None,
        timeout: Optional[float] = None,
        silence: Optional[float] = None,
    ) -> http.client.HTTPResponse:
        """The answer where it is a success; its body is still to be read, within `silence` for each piece."""
        timeout = self.timeout if timeout is None else timeout
        target = self.target(path, query)
        connection = self._connection(timeout)
        answer = None
        sent = body if body is None or isinstance(body, bytes) else _Sent(body)
        try:
            with _connected(f"{method} {path}"):
                connection.connect()
                socket = connection.sock
                try:
                    connection.request(
                        method, target, sent, {**self._authorization, "Connection": "close", **(headers or {})}
                    )
                except (BrokenPipeError, ConnectionResetError):
                    # A body that is refused before its end: the answer may have arrived.
                    pass
                answer = connection.getresponse()
                socket.settimeout(timeout if silence is None else silence)
            if not 200 <= answer.status < 300:
                with _connected(f"{method} {path}"):
                    document = answer.read(DOCUMENT)
                raise problem_of(answer.status, document, answer.getheader("Retry-After"))
            return answer
        except BaseException as error:
            if answer is not None:
                answer.close()
            connection.close()
            if isinstance(error, Unreachable) and isinstance(sent, _Sent) and sent.error is not None:
                raise sent.error from None
            raise

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        if self._secure:
            return http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._tls)
        return http.client.HTTPConnection(self._host, self._port, timeout=timeout)

    def json(self, method: str, path: str, **options: Any) -> Any:
        return self.json_and_headers(method, path, **options)[0]

    def json_and_headers(self, method: str, path: str, **options: Any) -> Tuple[Any, http.client.HTTPMessage]:
        with self.open(method, path, **options) as answer:
            with _connected(f"{method} {path}"):
                body = answer.read()
            try:
                return json.loads(body), answer.headers
            except ValueError as error:
                raise Unreachable(f"{method} {path}: the answer is not JSON: {error}") from error


def pieces(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """The body as it arrives; a body that breaks off is an error."""
    left = answer.length
    while True:
        # `read1` and not `readline`, which takes the cut of a chunked body for its end.
        with _connected("the answer broke off"):
            piece = answer.read1(_CHUNK)
            if not piece and left:
                raise http.client.IncompleteRead(b"", left)
        if not piece:
            return
        if left is not None:
            left -= len(piece)
        yield piece


def header_of_labels(labels: Mapping[str, str]) -> bytes:
    """`Counterstep-Label`, with each value in quotes, so that a comma does not end it."""

    def quoted(value: str) -> str:
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'

    return ", ".join(f"{name}={quoted(value)}" for name, value in labels.items()).encode()
