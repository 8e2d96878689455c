"""Many watches as one response with one JSON object per line, because a browser has only six connections.

Each watch is a separate request to the server in this process, with the caller's token, address and permissions; an
error is sent for that watch alone. Resources of a hosted cluster are requested with a token that the hub issues to the
caller for it. Lines are forwarded unchanged, prefixed with the id of their watch. A browser that does not read is
disconnected by its connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any
from urllib.parse import quote

import orjson

from shoal.clock import Clock
from shoal.dashboard.stream_request import METRICS_PATH, StreamWatch
from shoal.kinds.fleet.infrav1 import API_VERSION, managed_cluster_path
from shoal.objects.errors import InternalError, StatusError, Unavailable, from_status, from_text
from shoal.objects.wire import Handler, Request, Response, Sink, StreamResponse, Upgrade

log = logging.getLogger("shoal.dashboard")

PING = b'{"type":"PING"}\n'
PING_SECONDS = 20.0
COST_POLL_SECONDS = 10.0
"""The interval of polling the cost of nodes."""
MAX_PENDING_BYTES = 1024 * 1024
"""Bytes the browser has not read yet while another watch starts."""
TOKEN_CHECK_PATH = "/version"
"""Readable by everybody except with an invalid token."""
MANAGED_CLUSTERS_PATH = f"/apis/{API_VERSION}/namespaces"
TOKEN_SECONDS = 3600
"""How long tokens for hosted clusters are valid. They are replaced after half of it."""
TOKEN_REQUEST = orjson.dumps({"spec": {"expirationSeconds": TOKEN_SECONDS}})
COST_METRICS = (b"karpenter_nodepools_cost_total{", b"shoal_provision_plan_")
HOSTED_COST_METRICS = (*COST_METRICS, b"shoal_provision_node_cost{")
"""Per node only for hosted clusters that are watched: a fleet has many."""
USER_AGENT = "shoal-dashboard"


class WatchMultiplexer:
    """One open stream."""

    def __init__(self, handler: Handler, clock: Clock, caller: Request, watches: Mapping[str, StreamWatch]) -> None:
        self._handler, self._clock = handler, clock
        self._token, self._remote = caller.headers["authorization"], caller.remote_addr
        self._watches = watches
        self._tasks: set[asyncio.Task[None]] = set()
        self._watch_sinks: list[WatchSink] = []
        self._sink: Sink | None = None
        self._hosted_tokens: dict[tuple[str, str], tuple[str, float]] = {}
        """By namespace and name of a ManagedCluster: the caller's credential there, and when it is replaced."""
        self._token_rejected = False
        """The caller's token is invalid: nothing is kept open for it."""
        self._start_lock, self._room_available = asyncio.Lock(), asyncio.Event()

    def start(self, sink: Sink) -> None:
        self._sink = sink
        sink.on_close(self._stop)
        sink.on_drain(self._on_drain)
        self._spawn(self._ping())
        for name, watch in self._watches.items():
            self._spawn(self._open_watch(name, watch))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        for part in self._watch_sinks:
            part.stop()

    def _on_drain(self) -> None:
        self._room_available.set()
        for part in self._watch_sinks:
            part.notify_drain()

    async def _ping(self) -> None:
        """The first ping starts the response. Later ones keep the connection alive on both sides and check the token:
        an expired or revoked token ends the stream, whatever its watches could still send.
        """
        assert self._sink is not None
        try:
            while not self._token_rejected:
                self._write(PING)
                await self._clock.sleep(PING_SECONDS)
                await self._request(TOKEN_CHECK_PATH, "", self._token)
        except Exception:
            log.exception("the token of a dashboard could not be checked; its stream ends")
        self._sink.close()

    async def _open_watch(self, name: str, watch: StreamWatch) -> None:
        try:
            if watch.path == METRICS_PATH:
                return await self._poll_costs(name, watch, HOSTED_COST_METRICS if watch.inside else COST_METRICS)
            path, token = await self._target(watch)
            answer = await self._request(path, watch.query, token)
            if not isinstance(answer, StreamResponse):
                raise _status_error(answer)
            await self._start_watch(name, answer)
        except StatusError as error:
            self._send_event(name, "ERROR", error.to_status())
            if self._token_rejected and self._sink is not None:
                self._sink.close()
        except Exception:
            log.exception("dashboard watch failed")
            self._send_event(
                name, "ERROR", InternalError("Internal error occurred: the server's log has the details").to_status()
            )
        return None

    async def _start_watch(self, name: str, answer: StreamResponse) -> None:
        """Starts watches one after another, when the browser has read most of the last: a large fleet is many bytes at
        once.
        """
        assert self._sink is not None
        async with self._start_lock:
            while self._sink.pending_bytes > MAX_PENDING_BYTES:
                self._room_available.clear()
                await self._room_available.wait()
            watch_sink = WatchSink(name, self._sink)
            self._watch_sinks.append(watch_sink)
            answer.start(watch_sink)

    async def _poll_costs(self, name: str, watch: StreamWatch, prefixes: tuple[bytes, ...]) -> None:
        sent: bytes | None = None
        while True:
            path, token = await self._target(watch)
            answer = await self._request(path, "", token)
            if isinstance(answer, StreamResponse) or answer.status != 200:
                raise _status_error(answer)
            lines = b"\n".join(line for line in _body_bytes(answer).split(b"\n") if line.startswith(prefixes))
            if lines != sent:
                sent = lines
                self._send_event(name, "TEXT", lines.decode())
            await self._clock.sleep(COST_POLL_SECONDS)

    async def _target(self, watch: StreamWatch) -> tuple[str, str]:
        """Returns the path and the credential with which the hub serves what is watched."""
        if not watch.inside:
            return watch.path, self._token
        namespace, name = watch.managed_cluster
        return managed_cluster_path(namespace, name) + watch.path, await self._hosted_token(namespace, name)

    async def _hosted_token(self, namespace: str, name: str) -> str:
        """Returns the caller's credential in a hosted cluster. The hub issues it as to any other client."""
        token, renewal_time = self._hosted_tokens.get((namespace, name), ("", 0.0))
        if self._clock.monotonic() < renewal_time:
            return token
        path = f"{MANAGED_CLUSTERS_PATH}/{quote(namespace, safe='')}/managedclusters/{quote(name, safe='')}/token"
        answer = await self._request(path, "", self._token, TOKEN_REQUEST)
        if isinstance(answer, StreamResponse) or answer.status != 201:
            raise _status_error(answer)
        token = f"Bearer {orjson.loads(_body_bytes(answer))['status']['token']}"
        self._hosted_tokens[namespace, name] = token, self._clock.monotonic() + TOKEN_SECONDS / 2
        return token

    async def _request(self, path: str, query: str, token: str, body: bytes = b"") -> Response | StreamResponse:
        """A POST if there is a body."""
        headers = {"authorization": token, "accept": "application/json", "user-agent": USER_AGENT}
        if body:
            headers["content-type"] = "application/json"
        method = "POST" if body else "GET"
        pending = self._handler(Request(method, path, query, headers, body, remote_addr=self._remote))
        answer = pending if isinstance(pending, (Response, StreamResponse, Upgrade)) else await pending
        if isinstance(answer, Upgrade):
            raise InternalError("the server requires another protocol for this request")
        self._token_rejected = self._token_rejected or (answer.status == 401 and token == self._token)
        return answer

    def _send_event(self, name: str, event: str, content: object) -> None:
        self._write(orjson.dumps({"id": name, "type": event, "object": content}) + b"\n")

    def _write(self, data: bytes) -> None:
        if self._sink is not None:
            self._sink.write(data)


class WatchSink:
    """The sink of one watch: complete lines are forwarded, prefixed with its id."""

    def __init__(self, name: str, stream_sink: Sink) -> None:
        self._line_prefix = b'{"id":%b,' % orjson.dumps(name)
        self._stream_sink, self._partial_line = stream_sink, b""
        self._closed = False
        self._close_callbacks: list[Callable[[], None]] = []
        self._drain_callback: Callable[[], None] | None = None

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def pending_bytes(self) -> int:
        return self._stream_sink.pending_bytes

    def write(self, data: bytes) -> None:
        if self._closed:
            return
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        prefixed = [self._line_prefix + line[1:] for line in lines if line]
        if prefixed:
            self._stream_sink.write(b"\n".join(prefixed) + b"\n")

    def close(self) -> None:
        """The watch has ended, as watches do after a while: the browser resumes from its last resourceVersion."""
        if not self._closed:
            self._stream_sink.write(self._line_prefix + b'"type":"END"}\n')
            self.stop()

    def abort(self) -> None:
        self.close()

    def on_close(self, callback: Callable[[], None]) -> None:
        self._close_callbacks.append(callback)

    def on_drain(self, callback: Callable[[], None]) -> None:
        self._drain_callback = callback

    def notify_drain(self) -> None:
        if self._drain_callback is not None and not self._closed:
            self._drain_callback()

    def stop(self) -> None:
        if not self._closed:
            self._closed = True
            for callback in self._close_callbacks:
                callback()


def _body_bytes(answer: Response) -> bytes:
    return answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)


def _status_error(answer: Response | StreamResponse) -> StatusError:
    if isinstance(answer, StreamResponse):
        return Unavailable("the server returned an unexpected stream")
    code = answer.status if answer.status >= 400 else 503
    try:
        return from_status(orjson.loads(_body_bytes(answer)), code)
    except ValueError:
        return from_text(_body_bytes(answer), code)
