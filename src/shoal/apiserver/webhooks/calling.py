"""Calls one webhook: address, timeout, and errors in upstream's wording."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any, Protocol

from shoal.apiserver.cache import Cache
from shoal.apiserver.webhooks.review import NotAnAnswer, read_answer
from shoal.apiserver.webhooks.services import NoAddress, resolve
from shoal.kinds.webhooks import Where
from shoal.objects.errors import ShoalError

Object = dict[str, Any]

MOST_BYTES = 8 * 1024 * 1024
"""Limit of a response, besides twice the size of the request: a patch may contain a whole object in base64."""


class CallFailed(Exception):
    """The webhook gave no usable response. The caller decides what that means for the request."""


class _Late(CallFailed):
    """The webhook did not respond in time."""


class Poster(Protocol):
    """The HTTP client. Raises a ShoalError with the reason if there is no response."""

    async def post(
        self, url: str, body: bytes, *, authority: bytes, server_name: str, host: str, most: int
    ) -> tuple[int, bytes]: ...

    async def close(self) -> None: ...


class Calls:
    """Calls the webhooks of all logical clusters through one connection pool."""

    def __init__(self, cache: Cache, open_poster: Callable[[], Poster]) -> None:
        """`open_transport` is called for the first webhook call."""
        self._cache = cache
        self._open = open_poster
        self._poster: Poster | None = None
        self._late: dict[tuple[str, Where], int] = {}
        """Webhooks that timed out on their last call, with the number of fail-fast callers that wait for them now."""

    async def ask(self, cluster: str, where: Where, body: bytes, seconds: float, *, impatient: bool = False) -> Object:
        """Returns the response, which is at least a JSON object.

        `fail_fast` is for a caller that has other clusters to serve. Only one such caller at a time waits for a webhook
        that timed out before; the others fail immediately.
        """
        url, server_name, host, shown = self._address(cluster, where, seconds)
        here = cluster, where
        tried = impatient and here in self._late
        if tried and self._late[here]:
            raise CallFailed(f'Post "{shown}": it did not answer in time before, and is being asked again')
        if tried:
            self._late[here] += 1
        try:
            found = await self._asked(url, server_name, host, shown, where.authority, body, seconds)
        except _Late:
            self._late.setdefault(here, 0)
            raise
        except CallFailed:
            self._late.pop(here, None)
            raise
        finally:
            if tried and here in self._late:
                # Another caller's response may have removed the counter, and another timeout may have started a new
                # one.
                self._late[here] = max(0, self._late[here] - 1)
        self._late.pop(here, None)
        return found

    async def _asked(
        self, url: str, server_name: str, host: str, shown: str, authority: bytes, body: bytes, seconds: float
    ) -> Object:
        most = MOST_BYTES + 2 * len(body)
        if self._poster is None:
            self._poster = self._open()
        try:
            async with asyncio.timeout(seconds):
                status, answer = await self._poster.post(
                    url, body, authority=authority, server_name=server_name, host=host, most=most
                )
        except TimeoutError:
            raise _Late(f'Post "{shown}": context deadline exceeded') from None
        except ShoalError as error:
            raise CallFailed(f'Post "{shown}": {error}') from None
        if not 200 <= status < 300:
            raise CallFailed(_refusal(status, answer))
        if not answer:
            raise CallFailed(f"0-length response with status code: {status} and content type: application/json")
        try:
            return read_answer(answer)
        except NotAnAnswer as error:
            raise CallFailed(str(error)) from None

    def forget(self, cluster: str) -> None:
        for here in [each for each in self._late if each[0] == cluster]:
            del self._late[here]

    async def close(self) -> None:
        if self._poster is not None:
            await self._poster.close()

    def _address(self, cluster: str, where: Where, seconds: float) -> tuple[str, str, str, str]:
        """Returns the URL to call, the server name for TLS, the Host header, and the URL to display.

        The timeout is passed to the webhook.
        """
        query = f"?timeout={max(1, round(seconds))}s"
        if where.url:
            url = _joined(where.url) + query
            return url, "", "", url
        name = f"{where.service}.{where.namespace}.svc"
        shown = f"https://{name}:{where.port}{where.path or '/'}{query}"
        try:
            address, port = resolve(self._cache, cluster, where.namespace, where.service, where.port)
        except NoAddress as error:
            raise CallFailed(f'Post "{shown}": {error}') from None
        dialled = f"[{address}]" if ":" in address else address
        return f"https://{dialled}:{port}{where.path or '/'}{query}", name, f"{name}:{where.port}", shown


def _joined(url: str) -> str:
    """Collapses slashes in the path, as upstream does: many servers redirect from a path with double slashes."""
    scheme, found, rest = url.partition("://")
    return f"{scheme}{found}{_SLASHES.sub('/', rest)}" if "//" in rest else url


_SLASHES = re.compile("//+")


def _refusal(status: int, answer: bytes) -> str:
    if status == 404:
        return "the server could not find the requested resource"
    said = answer[:512].decode(errors="replace").strip().replace("\n", " ")
    if status >= 500:
        return f'an error on the server ("{said or "unknown"}") has prevented the request from succeeding'
    return f"the server responded with the status code {status} but did not return more information"
