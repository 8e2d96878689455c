"""One call of a webhook: where it is, how long it may take, and what went wrong in the words of upstream."""

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
"""Of an answer, besides twice what was asked: a patch may hold a whole object, in base64."""


class CallFailed(Exception):
    """The webhook gave no answer that could be used. What that means for the request is its owner's to say."""


class _Late(CallFailed):
    """There was none in time."""


class Poster(Protocol):
    """Who knows HTTP; raises a ShoalError that says why there is no answer."""

    async def post(
        self, url: str, body: bytes, *, authority: bytes, server_name: str, host: str, most: int
    ) -> tuple[int, bytes]: ...

    async def close(self) -> None: ...


class Calls:
    """The webhooks of all logical clusters, through one pool of connections."""

    def __init__(self, cache: Cache, open_poster: Callable[[], Poster]) -> None:
        """`open_poster` is called when the first webhook is."""
        self._cache = cache
        self._open = open_poster
        self._poster: Poster | None = None
        self._late: dict[tuple[str, Where], int] = {}
        """Webhooks that did not answer in time when they were asked last: how many of the impatient wait there now."""

    async def ask(self, cluster: str, where: Where, body: bytes, seconds: float, *, impatient: bool = False) -> Object:
        """The answer, which is a JSON object at least.

        `impatient`: on behalf of somebody who has other clusters to serve. Of those one at a time waits for a webhook
        that was late, and the others are told so at once.
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
                # Somebody's answer may have ended the count, and somebody's silence have begun another.
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
        """The URL to call, the name its certificate must have and the host it is told, and the URL as people read it.

        The webhook learns how long anybody waits for it.
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
    """The URL with single slashes in its path, as upstream joins it: many servers redirect from what has two."""
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
