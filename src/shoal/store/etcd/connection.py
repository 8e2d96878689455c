"""Connections to the members of an etcd cluster: one is used at a time, and the next one when it fails.

etcd's errors are translated into store errors whose message says what to do. The caller has to find out whether a write
without an answer was applied.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

# The library would log lost connections in addition to Shoal.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import aetcd.rpc as rpc
import grpc

from shoal.objects.errors import StoreError
from shoal.store.interface import Compacted, FutureRevision, StoreUnavailable, ValueTooLarge

log = logging.getLogger("shoal.store")

CALL_TIMEOUT_SECONDS = 5.0
RETRY_TIMEOUT_SECONDS = 15.0
"""How long calls are retried, at one member after another, from the beginning of an outage. A call that comes later has
one attempt.
"""
PROBE_TIMEOUT_SECONDS = 1.0
"""Of an attempt after that."""
MIN_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 0.05, 1.0

_CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
)
_REQUIRE_LEADER = ("hasleader", "true")
"""A member cut off from its leader must fail a watch instead of keeping it silent."""
_TRANSIENT_CODES = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EtcdSettings:
    endpoints: tuple[str, ...]
    """http://host:port, https://host:port, or unix:PATH."""
    prefix: str = "/shoal"
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    username: str = ""
    password: str = ""
    exclusive: bool = False
    """Nobody else writes below the prefix, so this server has seen every write."""

    @property
    def endpoints_text(self) -> str:
        return ", ".join(self.endpoints)


class TransientError(StoreUnavailable):
    """No answer, or one that does not say whether the call was applied."""


class EtcdConnection:
    def __init__(self, settings: EtcdSettings) -> None:
        self.settings = settings
        self._credentials = _channel_credentials(settings)
        self._members = [EtcdMember(endpoint, self._new_channel(endpoint)) for endpoint in settings.endpoints]
        self._current_index = 0
        self._token = ""
        self._authentication_lock = asyncio.Lock()
        self._outage_started: float | None = None
        """When the first attempt began that had no answer; None: the last one had."""
        self._has_answered = False
        """After the first answer, flags are not to blame for errors."""
        self.member_change_handlers: list[Callable[[], None]] = []
        """Called when another member is used from now on."""
        self.keys_read = 0
        """Keys that etcd has sent in answers to reads, watches excluded."""

    @property
    def member(self) -> EtcdMember:
        return self._members[self._current_index]

    @property
    def members(self) -> list[EtcdMember]:
        return list(self._members)

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        return (_REQUIRE_LEADER, ("token", self._token)) if self._token else (_REQUIRE_LEADER,)

    async def call(self, method: Callable[[EtcdMember], Any], request: Any) -> Any:
        """Returns the answer of the first member that gives one. For idempotent calls."""
        return await self.retry(lambda: self.call_once(method, request))

    async def retry(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Retries at the next member while members do not answer."""
        loop, backoff = asyncio.get_running_loop(), MIN_BACKOFF_SECONDS
        deadline = loop.time() + RETRY_TIMEOUT_SECONDS
        while True:
            try:
                return await attempt()
            except TransientError as error:
                if self._outage_started is not None:
                    deadline = min(deadline, self._outage_started + RETRY_TIMEOUT_SECONDS)
                if loop.time() + backoff > deadline:
                    raise StoreUnavailable(str(error)) from None
                await asyncio.sleep(backoff)
                backoff = min(backoff * 2, MAX_BACKOFF_SECONDS)

    async def call_once(self, method: Callable[[EtcdMember], Any], request: Any) -> Any:
        await self.authenticate()
        member, started = self.member, asyncio.get_running_loop().time()
        try:
            answer = await method(member)(request, timeout=self._call_timeout(started), metadata=self.headers)
        except grpc.aio.AioRpcError as error:
            if error.code() in _TRANSIENT_CODES and self._outage_started is None:
                self._outage_started = started
            raise self.store_error(member, error) from None
        self._has_answered, self._outage_started = True, None
        self.keys_read += len(getattr(answer, "kvs", ()))
        return answer

    def _call_timeout(self, now: float) -> float:
        if self._outage_started is None:
            return CALL_TIMEOUT_SECONDS
        remaining = self._outage_started + RETRY_TIMEOUT_SECONDS - now
        return min(max(remaining, PROBE_TIMEOUT_SECONDS), CALL_TIMEOUT_SECONDS)

    def store_error(self, member: EtcdMember, error: Any) -> StoreError:
        """Translates the error. Switches to the next member if this one does not answer."""
        details = (error.details() or "").lower()
        if self.settings.username and ("invalid auth token" in details or "revision of auth store is old" in details):
            self._token = ""
            return TransientError(f"etcd at {member.endpoint} requires authentication again")
        if error.code() in _TRANSIENT_CODES and member is self.member and len(self._members) > 1:
            self._current_index = (self._current_index + 1) % len(self._members)
            log.warning("etcd member %s does not answer; using %s", member.endpoint, self.member.endpoint)
            for handler in self.member_change_handlers:
                handler()
        return _translate_error(member, error, self.settings, self._has_answered)

    async def authenticate(self) -> None:
        """Authenticates once for all waiters: etcd takes a tenth of a second to check a password."""
        if self.settings.username and not self._token:
            async with self._authentication_lock:
                if not self._token:
                    await self._authenticate(self.member)

    async def _authenticate(self, member: EtcdMember) -> None:
        request = rpc.AuthenticateRequest(name=self.settings.username, password=self.settings.password)
        try:
            answer = await member.auth.Authenticate(request, timeout=CALL_TIMEOUT_SECONDS)
        except grpc.aio.AioRpcError as error:
            if "authentication is not enabled" in (error.details() or ""):
                raise StoreUnavailable(
                    f"etcd at {member.endpoint} has no user authentication enabled; leave out --etcd-username"
                ) from None
            raise self.store_error(member, error) from None
        self._token = answer.token

    def _new_channel(self, endpoint: str) -> Any:
        if endpoint.startswith("unix:"):
            return grpc.aio.insecure_channel(endpoint, options=_CHANNEL_OPTIONS)
        parts = urlsplit(endpoint)
        if self._credentials is not None and parts.scheme == "https":
            return grpc.aio.secure_channel(parts.netloc, self._credentials, options=_CHANNEL_OPTIONS)
        return grpc.aio.insecure_channel(parts.netloc, options=_CHANNEL_OPTIONS)

    async def close(self) -> None:
        """Called when no call is in flight. The library reports cancelled streams to the event loop later; a last
        answer comes after all of them, and then the event loop may be closed.
        """
        for member in self._members:
            with suppress(grpc.aio.AioRpcError):
                await member.maintenance.Status(rpc.StatusRequest(), timeout=1.0, metadata=self.headers)
            await member.channel.close()


class EtcdMember:
    """One etcd server and its services."""

    def __init__(self, endpoint: str, channel: Any) -> None:
        self.endpoint = endpoint
        self.channel = channel
        self.kv = rpc.KVStub(channel)
        self.watch = rpc.WatchStub(channel)
        self.auth = rpc.AuthStub(channel)
        self.maintenance = rpc.MaintenanceStub(channel)


def _channel_credentials(settings: EtcdSettings) -> Any:
    if not any(endpoint.startswith("https:") for endpoint in settings.endpoints):
        return None
    return grpc.ssl_channel_credentials(
        root_certificates=_read_file(settings.ca_file, "--etcd-cafile"),
        private_key=_read_file(settings.key_file, "--etcd-keyfile"),
        certificate_chain=_read_file(settings.cert_file, "--etcd-certfile"),
    )


def _read_file(file: Path | None, flag: str) -> bytes | None:
    if file is None:
        return None
    try:
        return file.read_bytes()
    except OSError as error:
        raise StoreUnavailable(f"{flag} {file}: {error.strerror}") from None


def _translate_error(member: EtcdMember, error: Any, settings: EtcdSettings, has_answered: bool) -> StoreError:
    code, details, endpoint = error.code(), error.details() or "", member.endpoint
    if code is grpc.StatusCode.OUT_OF_RANGE and "compacted" in details:
        return Compacted(0, 0)
    if code is grpc.StatusCode.OUT_OF_RANGE and "future" in details:
        return FutureRevision(0, 0)
    if "request is too large" in details or "message larger than max" in details:
        return ValueTooLarge(
            "the object exceeds etcd's request limit; raise --max-request-bytes of etcd, or make the object smaller"
        )
    if "database space exceeded" in details:
        return StoreUnavailable(
            f"etcd at {endpoint} is out of space: raise --quota-backend-bytes or defragment it, "
            "then run etcdctl alarm disarm"
        )
    if "authentication failed" in details:
        return StoreUnavailable(f"etcd at {endpoint} rejected the user name {settings.username!r} or its password")
    if "user name is empty" in details:
        return StoreUnavailable(f"etcd at {endpoint} requires a user: give --etcd-username and --etcd-password-file")
    if "permission denied" in details:
        return StoreUnavailable(
            f"the etcd user {settings.username!r} may not use {settings.prefix}/: grant it a role that may read "
            f"and write that prefix (etcdctl role grant-permission ROLE readwrite --prefix=true {settings.prefix}/)"
        )
    if code in _TRANSIENT_CODES:
        return TransientError(
            f"etcd at {endpoint} cannot be reached: {_unreachable_reason(details, settings, has_answered)}"
        )
    return StoreUnavailable(f"etcd at {endpoint} refused: {details}")


def _unreachable_reason(details: str, settings: EtcdSettings, has_answered: bool) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in details:
        return "its certificate is not signed by the authority in --etcd-cafile, or is for another name"
    if "TSI_DATA_CORRUPTED" in details or ("alert" in details.lower() and "certificate" in details.lower()):
        return "it does not accept the client certificate; give --etcd-certfile and --etcd-keyfile that it trusts"
    if "WRONG_VERSION_NUMBER" in details:
        return "it does not speak TLS; use http:// in --etcd-servers"
    if "no leader" in details:
        return "it has no leader; a majority of the etcd members must be running"
    text = details.rpartition("last error: ")[2] or "no answer in time"
    if "Socket closed" in text and settings.cert_file is None and not has_answered:
        text += (
            " (it may require TLS or a client certificate: https:// in --etcd-servers, --etcd-cafile, --etcd-certfile)"
        )
    return text
