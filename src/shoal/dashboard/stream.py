"""Many watches as one response with one JSON object per line, because a browser has only six connections.

Each watch is a separate request to the server in this process, with the caller's token, address and permissions; an
error is sent for that watch alone. Resources of a hosted cluster are requested with the kubeconfig the caller may read.
Lines are forwarded unchanged, prefixed with the id of their watch. A browser that does not read is disconnected by its
connection.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

import orjson

from shoal.client.kubeconfig import KubeconfigError, endpoint_of, parse
from shoal.clock import Clock
from shoal.dashboard.asked import METRICS, Watch
from shoal.kinds.fleet import kubeconfig_secret, stable_path
from shoal.objects.errors import InternalError, NotFound, StatusError, Unavailable, from_status, from_text
from shoal.objects.wire import Handler, Request, Response, Sink, StreamResponse, Upgrade

log = logging.getLogger("shoal.dashboard")

PING = b'{"type":"PING"}\n'
PING_SECONDS = 20.0
LOOK_SECONDS = 10.0
"""The interval of polling the cost of nodes."""
MOST_AHEAD = 1024 * 1024
"""Bytes the browser has not read yet while another watch starts."""
WHO = "/version"
"""Readable by everybody except with an invalid token."""
COSTS = (b"karpenter_nodepools_cost_total{", b"shoal_provision_plan_")
COSTS_INSIDE = (*COSTS, b"shoal_provision_node_cost{")
"""Per node only for hosted clusters that are watched: a fleet has many."""
AGENT = "shoal-dashboard"


class Fan:
    """One open stream."""

    def __init__(self, handler: Handler, clock: Clock, caller: Request, watches: Mapping[str, Watch]) -> None:
        self._handler, self._clock = handler, clock
        self._token, self._remote = caller.headers["authorization"], caller.remote
        self._watches = watches
        self._tasks: set[asyncio.Task[None]] = set()
        self._parts: list[Part] = []
        self._sink: Sink | None = None
        self._unknown = False
        """The caller's token is invalid: nothing is kept open for it."""
        self._turn, self._room = asyncio.Lock(), asyncio.Event()

    def start(self, sink: Sink) -> None:
        self._sink = sink
        sink.on_close(self._stop)
        sink.on_drain(self._drained)
        self._spawn(self._ping())
        for name, watch in self._watches.items():
            self._spawn(self._open(name, watch))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        for part in self._parts:
            part.stop()

    def _drained(self) -> None:
        self._room.set()
        for part in self._parts:
            part.drained()

    async def _ping(self) -> None:
        """The first ping starts the response. Later ones keep the connection alive on both sides and check the token:
        an expired or revoked token ends the stream, whatever its watches could still send.
        """
        assert self._sink is not None
        while not self._unknown:
            self._write(PING)
            await self._clock.sleep(PING_SECONDS)
            await self._ask(WHO, "", self._token)
        self._sink.close()

    async def _open(self, name: str, watch: Watch) -> None:
        try:
            path, token = (await self._inside(watch)) if watch.inside else (watch.path, self._token)
            if watch.path == METRICS:
                return await self._follow_costs(name, path, token, COSTS_INSIDE if watch.inside else COSTS)
            answer = await self._ask(path, watch.query, token)
            if not isinstance(answer, StreamResponse):
                raise _refusal(answer)
            await self._begin(name, answer)
        except StatusError as error:
            self._tell(name, "ERROR", error.wire())
            if self._unknown and self._sink is not None:
                self._sink.close()
        except Exception:
            log.exception("a watch of a dashboard failed")
            self._tell(name, "ERROR", InternalError("Internal error occurred: the server's log has the details").wire())
        return None

    async def _begin(self, name: str, answer: StreamResponse) -> None:
        """Starts watches one after another, when the browser has read most of the last: a large fleet is many bytes at
        once.
        """
        assert self._sink is not None
        async with self._turn:
            while self._sink.pending > MOST_AHEAD:
                self._room.clear()
                await self._room.wait()
            part = Part(name, self._sink)
            self._parts.append(part)
            answer.start(part)

    async def _follow_costs(self, name: str, path: str, token: str, wanted: tuple[bytes, ...]) -> None:
        told: bytes | None = None
        while True:
            answer = await self._ask(path, "", token)
            if isinstance(answer, StreamResponse) or answer.status != 200:
                raise _refusal(answer)
            found = b"\n".join(line for line in _body(answer).split(b"\n") if line.startswith(wanted))
            if found != told:
                told = found
                self._tell(name, "TEXT", found.decode())
            await self._clock.sleep(LOOK_SECONDS)

    async def _inside(self, watch: Watch) -> tuple[str, str]:
        """Returns the path and the token with which the hub serves a resource of a hosted cluster."""
        namespace, name = watch.home
        secret = kubeconfig_secret(name)
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/secrets/{quote(secret, safe='')}"
        answer = await self._ask(path, "", self._token)
        if isinstance(answer, StreamResponse) or answer.status != 200:
            raise _refusal(answer)
        try:
            content = base64.b64decode(orjson.loads(_body(answer))["data"]["value"])
            endpoint = endpoint_of(parse(content.decode(), secret), where=secret)
        except (KubeconfigError, KeyError, ValueError) as error:
            raise Unavailable(f"the kubeconfig of {watch.inside} cannot be used: {error}") from None
        below = stable_path(namespace, name)
        if urlsplit(endpoint.server).path.rstrip("/") != below or not endpoint.token:
            raise NotFound(f"{watch.inside} is not reached through the hub")
        return below + watch.path, f"Bearer {endpoint.token}"

    async def _ask(self, path: str, query: str, token: str) -> Response | StreamResponse:
        headers = {"authorization": token, "accept": "application/json", "user-agent": AGENT}
        coming = self._handler(Request("GET", path, query, headers, remote=self._remote))
        answer = coming if isinstance(coming, (Response, StreamResponse, Upgrade)) else await coming
        if isinstance(answer, Upgrade):
            raise InternalError("the server wants another protocol for this")
        self._unknown = self._unknown or (answer.status == 401 and token == self._token)
        return answer

    def _tell(self, name: str, event: str, content: object) -> None:
        self._write(orjson.dumps({"id": name, "type": event, "object": content}) + b"\n")

    def _write(self, data: bytes) -> None:
        if self._sink is not None:
            self._sink.write(data)


class Part:
    """The sink of one watch: complete lines are forwarded, prefixed with its id."""

    def __init__(self, name: str, whole: Sink) -> None:
        self._opening = b'{"id":%b,' % orjson.dumps(name)
        self._whole, self._rest = whole, b""
        self._closed = False
        self._callbacks: list[Callable[[], None]] = []
        self._on_drain: Callable[[], None] | None = None

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def pending(self) -> int:
        return self._whole.pending

    def write(self, data: bytes) -> None:
        if self._closed:
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        told = [self._opening + line[1:] for line in lines if line]
        if told:
            self._whole.write(b"\n".join(told) + b"\n")

    def close(self) -> None:
        """The watch has ended, as watches do after a while: the browser resumes from its last resourceVersion."""
        if not self._closed:
            self._whole.write(self._opening + b'"type":"END"}\n')
            self.stop()

    def abort(self) -> None:
        self.close()

    def on_close(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def on_drain(self, callback: Callable[[], None]) -> None:
        self._on_drain = callback

    def drained(self) -> None:
        if self._on_drain is not None and not self._closed:
            self._on_drain()

    def stop(self) -> None:
        if not self._closed:
            self._closed = True
            for callback in self._callbacks:
                callback()


def _body(answer: Response) -> bytes:
    return answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)


def _refusal(answer: Response | StreamResponse) -> StatusError:
    if isinstance(answer, StreamResponse):
        return Unavailable("the answer is not what was asked for")
    code = answer.status if answer.status >= 400 else 503
    try:
        return from_status(orjson.loads(_body(answer)), code)
    except ValueError:
        return from_text(_body(answer), code)
