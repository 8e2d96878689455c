"""Calls one webhook: address, timeout, and errors in upstream's wording."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from shoal.apiserver.cache.cacher import WatchCache
from shoal.apiserver.webhooks import metrics
from shoal.apiserver.webhooks.resolver import ResolveError, resolve_service
from shoal.apiserver.webhooks.review import InvalidResponse, decode_response
from shoal.kinds.admissionregistration.webhook_client import ClientConfig
from shoal.objects.errors import ShoalError

log = logging.getLogger("shoal.apiserver")

Object = dict[str, Any]

LOG_SECONDS, MAX_LOGGED = 60.0, 4_096
"""A failure that a tenant is not told is logged once in that time, by URL."""
UNDISCLOSED_FAILURE = "the webhook cannot be reached or does not answer as a webhook"
MAX_RESPONSE_BYTES = 8 * 1024 * 1024
"""Limit of a response, besides twice the size of the request: a patch may contain a whole object in base64."""


class CallError(Exception):
    """The webhook gave no usable response. The caller decides what that means for the request."""


class _CallTimeout(CallError):
    """The webhook did not respond in time."""


class HTTPTransport(Protocol):
    """The HTTP client. Raises a ShoalError with the reason if there is no response."""

    async def post(
        self, url: str, body: bytes, *, authority: bytes, server_name: str, host: str, most: int, cluster: str
    ) -> tuple[int, bytes]: ...

    async def close(self) -> None: ...


class WebhookAddress(NamedTuple):
    url: str
    display_url: str
    """The URL in messages."""
    server_name: str = ""
    """For TLS. Empty: that of the URL."""
    host: str = ""
    """The Host header. Empty: that of the URL."""


class WebhookClient:
    """Calls the webhooks of all logical clusters through one connection pool."""

    def __init__(
        self,
        cache: WatchCache,
        open_transport: Callable[[], HTTPTransport],
        discloses_failures: Callable[[str], bool] = lambda cluster: True,
    ) -> None:
        """`open_transport` is called for the first webhook call. `discloses_failures` tells whether users of a logical
        cluster learn why a call failed.
        """
        self._cache, self._discloses_failures = cache, discloses_failures
        self._open_transport = open_transport
        self._transport: HTTPTransport | None = None
        self._logged: dict[tuple[str, str], float] = {}
        """When a failure was logged last, by cluster and URL."""
        self._slow: dict[tuple[str, ClientConfig], int] = {}
        """Webhooks that timed out on their last call, with the number of fail-fast callers that wait for them now."""

    async def call(
        self, cluster: str, client_config: ClientConfig, body: bytes, seconds: float, *, fail_fast: bool = False
    ) -> Object:
        """Returns the response, which is at least a JSON object.

        `fail_fast` is for a caller that has other clusters to serve. Only one such caller at a time waits for a webhook
        that timed out before; the others fail immediately.
        """
        address = self._address(cluster, client_config, seconds)
        key = cluster, client_config
        retrying = fail_fast and key in self._slow
        if retrying and self._slow[key]:
            raise CallError(f'Post "{address.display_url}": the webhook timed out before and is being retried')
        if retrying:
            self._slow[key] += 1
        try:
            response = await self._post(cluster, address, client_config.ca_bundle, body, seconds)
        except _CallTimeout:
            self._slow.setdefault(key, 0)
            raise
        except CallError:
            self._slow.pop(key, None)
            raise
        finally:
            if retrying and key in self._slow:
                # Another caller's response may have removed the counter, and another timeout may have started a new
                # one.
                self._slow[key] = max(0, self._slow[key] - 1)
        self._slow.pop(key, None)
        return response

    async def _post(
        self, cluster: str, address: WebhookAddress, authority: bytes, body: bytes, seconds: float
    ) -> Object:
        max_bytes = MAX_RESPONSE_BYTES + 2 * len(body)
        if self._transport is None:
            self._transport = self._open_transport()
        url = address.display_url
        try:
            async with asyncio.timeout(seconds):
                status, answer = await self._transport.post(
                    address.url,
                    body,
                    authority=authority,
                    server_name=address.server_name,
                    host=address.host,
                    most=max_bytes,
                    cluster=cluster,
                )
        except TimeoutError:
            detail = f'Post "{url}": context deadline exceeded'
            raise _CallTimeout(self._failure(cluster, url, detail)) from None
        except ShoalError as error:
            raise CallError(self._failure(cluster, url, f'Post "{url}": {error}')) from None
        if not 200 <= status < 300:
            raise CallError(self._failure(cluster, url, _status_error(status, answer)))
        if not answer:
            detail = f"0-length response with status code: {status} and content type: application/json"
            raise CallError(self._failure(cluster, url, detail))
        try:
            return decode_response(answer)
        except InvalidResponse as error:
            raise CallError(self._failure(cluster, url, str(error))) from None

    def undisclosed_failure(self, cluster: str, client_config: ClientConfig, seconds: float, detail: str) -> str:
        """Returns what a tenant is told of an answer that no webhook gives: the same as of a call that failed. Empty:
        users of the cluster are told the detail.
        """
        if self._discloses_failures(cluster):
            return ""
        return self._failure(cluster, self._address(cluster, client_config, seconds).display_url, detail)

    def _failure(self, cluster: str, url: str, detail: str) -> str:
        """Returns what the user is told. Whoever may not reach an address is not told what is there, so all failures
        have one wording for a tenant. The detail is in the log.
        """
        if self._discloses_failures(cluster):
            return detail
        metrics.count_undisclosed_failure()
        now = asyncio.get_running_loop().time()
        if self._logged.get((cluster, url), -LOG_SECONDS) + LOG_SECONDS <= now:
            if len(self._logged) >= MAX_LOGGED:
                self._logged.clear()
            self._logged[cluster, url] = now
            log.warning("%s: webhook %s failed: %s", cluster, url, detail)
        return f'Post "{url}": {UNDISCLOSED_FAILURE}'

    def forget(self, cluster: str) -> None:
        for key in [each for each in self._slow if each[0] == cluster]:
            del self._slow[key]

    async def close(self) -> None:
        if self._transport is not None:
            await self._transport.close()

    def _address(self, cluster: str, client_config: ClientConfig, seconds: float) -> WebhookAddress:
        """The timeout is passed to the webhook."""
        query = f"?timeout={max(1, round(seconds))}s"
        if client_config.url:
            url = _collapse_slashes(client_config.url) + query
            return WebhookAddress(url, url)
        name = f"{client_config.service_name}.{client_config.namespace}.svc"
        display_url = f"https://{name}:{client_config.port}{client_config.path or '/'}{query}"
        try:
            address, port = resolve_service(
                self._cache, cluster, client_config.namespace, client_config.service_name, client_config.port
            )
        except ResolveError as error:
            raise CallError(f'Post "{display_url}": {error}') from None
        dial_host = f"[{address}]" if ":" in address else address
        url = f"https://{dial_host}:{port}{client_config.path or '/'}{query}"
        return WebhookAddress(url, display_url, name, f"{name}:{client_config.port}")


def _collapse_slashes(url: str) -> str:
    """Collapses slashes in the path, as upstream does: many servers redirect from a path with double slashes."""
    scheme, found, rest = url.partition("://")
    return f"{scheme}{found}{_replace_slashes('/', rest)}" if "//" in rest else url


_replace_slashes = re.compile("//+").sub


def _status_error(status: int, answer: bytes) -> str:
    if status == 404:
        return "the server could not find the requested resource"
    text = answer[:512].decode(errors="replace").strip().replace("\n", " ")
    if status >= 500:
        return f'an error on the server ("{text or "unknown"}") has prevented the request from succeeding'
    return f"the server responded with the status code {status} but did not return more information"
