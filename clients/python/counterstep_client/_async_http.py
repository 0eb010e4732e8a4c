"""Requests and answers of asyncio, by httpx. Each request has a connection of its own, so that none meets one that is just being closed."""

from __future__ import annotations

import asyncio
import json
import ssl
from contextlib import asynccontextmanager, contextmanager
from typing import Any, AsyncIterator, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from ._calls import options_of, path_of
from ._http import DOCUMENT, Address, Body, Headers, Query
from .errors import Unreachable, problem_of

try:
    import httpx
except ImportError as error:
    raise ImportError("the client for asyncio needs httpx: pip install 'counterstep-client[async]'") from error


@contextmanager
def _connected(what: str) -> Iterator[None]:
    try:
        yield
    except (httpx.HTTPError, asyncio.TimeoutError) as error:
        raise Unreachable(f"{what}: {error or type(error).__name__}") from error


class AsyncTransport(Address):
    def __init__(self, base_url: str, api_key: Optional[str], timeout: float, tls: Optional[ssl.SSLContext]) -> None:
        super().__init__(base_url, api_key)
        self.timeout = timeout
        self._client = httpx.AsyncClient(
            verify=ssl.create_default_context() if tls is None else tls,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
            # The key goes to the API alone, and not by a proxy that a variable names.
            trust_env=False,
            headers={"Accept-Encoding": "identity"},
        )

    async def close(self) -> None:
        await self._client.aclose()

    @asynccontextmanager
    async def open(
        self,
        method: str,
        path: str,
        query: Query = (),
        headers: Optional[Headers] = None,
        body: Body = None,
        timeout: Optional[float] = None,
        silence: Optional[float] = None,
    ) -> AsyncIterator[httpx.Response]:
        """The answer where it is a success; its body is still to be read, within `silence` for each piece."""
        timeout = self.timeout if timeout is None else timeout
        all_headers: Mapping[Any, Any] = {**self._authorization, **(headers or {})}
        request = self._client.build_request(
            method,
            self._origin + self.target(path, query),
            headers=all_headers,
            content=body if body is None or isinstance(body, bytes) else _sent(iter(body)),
            timeout=httpx.Timeout(timeout, read=timeout if silence is None else silence),
        )
        with _connected(f"{method} {path}"):
            sending = self._client.send(request, stream=True)
            answer = await (sending if silence is None else asyncio.wait_for(sending, timeout))
        try:
            if not 200 <= answer.status_code < 300:
                document = b""
                with _connected(f"{method} {path}"):
                    async for piece in answer.aiter_raw():
                        document += piece
                        if len(document) >= DOCUMENT:
                            break
                raise problem_of(answer.status_code, document, answer.headers.get("Retry-After"))
            yield answer
        finally:
            await answer.aclose()

    async def json(self, method: str, path: str, **options: Any) -> Any:
        return (await self.json_and_headers(method, path, **options))[0]

    async def json_and_headers(self, method: str, path: str, **options: Any) -> Tuple[Any, httpx.Headers]:
        async with self.open(method, path, **options) as answer:
            body = b"".join([piece async for piece in pieces(answer)])
            try:
                return json.loads(body), answer.headers
            except ValueError as error:
                raise Unreachable(f"{method} {path}: the answer is not JSON: {error}") from error


async def pieces(answer: httpx.Response) -> AsyncIterator[bytes]:
    """The body as it arrives; a body that breaks off is an error."""
    arriving = answer.aiter_raw()
    while True:
        with _connected("the answer broke off"):
            try:
                piece = await arriving.__anext__()
            except StopAsyncIteration:
                return
        yield piece


async def _sent(body: Iterator[bytes]) -> AsyncIterator[bytes]:
    """A body whose files are read beside the loop."""
    while True:
        piece = await asyncio.to_thread(next, body, None)
        if piece is None:
            return
        yield piece


class AsyncCalls:
    """How the generated operations ask the API."""

    def __init__(self, http: AsyncTransport) -> None:
        self._http = http

    async def json(self, method: str, path: str, target: Sequence[str], **sent: Any) -> Any:
        return await self._http.json(method, path_of(path, target), **options_of(**sent))

    async def nothing(self, method: str, path: str, target: Sequence[str], **sent: Any) -> None:
        async with self._http.open(method, path_of(path, target), **options_of(**sent)):
            pass

    def items(self, method: str, path: str, target: Sequence[str], **sent: Any) -> AsyncIterator[Any]:
        # What cannot be sent is refused now, and not when the first item is asked for.
        return self._pages(method, path_of(path, target), options_of(**sent))

    async def _pages(self, method: str, path: str, options: Dict[str, Any]) -> AsyncIterator[Any]:
        query = options.pop("query", [])
        cursor: List[Tuple[str, str]] = []
        while True:
            page = await self._http.json(method, path, query=query + cursor, **options)
            for item in page["items"]:
                yield item
            if page.get("next_cursor") is None:
                return
            cursor = [("cursor", page["next_cursor"])]
