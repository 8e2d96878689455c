"""Queues requests under load and starts them in fair order.

While the current event loop turn has time left, requests are served as they arrive and are not classified. After that
only exempt requests (health, administrators of root) start at once. All others wait in a FairQueue, reads and writes in
separate queues: reads wait for time, writes for a seat at the store. A request that would wait too long gets 429.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from time import perf_counter

from shoal.apiserver.fairness.flows import Flow
from shoal.apiserver.fairness.order import Order
from shoal.apiserver.fairness.seats import Seats
from shoal.apiserver.paths import READS
from shoal.apiserver.waiting import hand_on
from shoal.objects.errors import StatusError, TooManyRequests
from shoal.objects.wire import Answer, Handler, Request, Response, StreamResponse, Upgrade

PER_BYTE = 1e-9
"""Estimated seconds to send one byte: encryption and copies."""
PER_WRITE = 0.0005
"""Estimated seconds of a write: most of its work is done after it was started."""
LEASES = "coordination.k8s.io", "leases"
LEASE_WEIGHT = 100.0
"""Weight of a cluster's Leases beside the shares of its priority levels: leaders must be able to renew."""
_SWEEP = 1.0


@dataclass(frozen=True, slots=True)
class DispatchSettings:
    turn: float = 0.02
    """Seconds of one event loop turn that are given to requests."""
    seats: int = 200
    """Maximum of concurrent client writes."""
    patience: float = 15.0
    """Seconds a request may wait in its queue."""
    most_bytes: int = 64 * 1024 * 1024
    """Maximum total size of queued request bodies."""


@dataclass(eq=False, slots=True)
class Held:
    request: Request
    flow: Flow
    since: float
    answer: asyncio.Future[Answer]


class Dispatcher:
    def __init__(
        self,
        handler: Handler,
        flow_of: Callable[[Request], Flow | None],
        refuse: Callable[[StatusError], Response],
        seats: Seats,
        settings: DispatchSettings | None = None,
    ) -> None:
        """`classify` returns None for a request that never waits."""
        self._handler, self._flow_of, self._refuse = handler, flow_of, refuse
        self._seats = seats
        self._settings = settings or DispatchSettings()
        self._reads: Order[Held] = Order()
        self._writes: Order[Held] = Order()
        self._held: dict[tuple[str, str], int] = {}
        """Number of queued requests by cluster and priority level."""
        self._bytes = 0
        self._began = 0.0
        """Start of the current event loop turn. 0: no request was served in it yet."""
        self._sweeping = False
        self.rejected = 0
        self.dispatched = 0
        """Number of requests that were queued and then started."""

    @property
    def waiting(self) -> int:
        return self._reads.size + self._writes.size

    def handle(self, request: Request) -> Answer | Awaitable[Answer]:
        if self._is_easy(request):
            return self._begin(request, None)
        flow = self._flow_of(request)
        return self._begin(request, None) if flow is None else self._hold(request, flow)

    def _is_easy(self, request: Request) -> bool:
        if not self._began:
            self._began = perf_counter()
            asyncio.get_running_loop().call_soon(self._turn)
        elif perf_counter() - self._began > self._settings.turn:
            return False
        if request.method in READS:
            return not self._reads.size
        return not self._writes.size and self._seats.plenty

    def _begin(self, request: Request, flow: Flow | None) -> Answer | Awaitable[Answer]:
        answer = self._handler(request)
        if request.method in READS or isinstance(answer, (Response, StreamResponse, Upgrade)):
            return answer
        task = asyncio.ensure_future(answer)
        key = (flow.cluster, flow.level.name) if flow is not None else None
        self._seats.take(key)
        task.add_done_callback(lambda _: self._seat_is_free(key))
        return task

    def _seat_is_free(self, key: tuple[str, str] | None) -> None:
        self._seats.give_back(key)
        if self._writes.size and not self._began:
            self._began = perf_counter()
            asyncio.get_running_loop().call_soon(self._turn)

    # --- queued requests ---

    def _hold(self, request: Request, flow: Flow) -> Answer | Awaitable[Answer]:
        order = self._reads if request.method in READS else self._writes
        held = Held(request, flow, perf_counter(), asyncio.get_running_loop().create_future())
        level = (flow.cluster, flow.level.name)
        waiting = self._held.get(level, 0)
        size = self._bytes + len(request.body)
        if not flow.level.queues or waiting >= flow.level.most or size > self._settings.most_bytes:
            return self._too_many()
        node = order.push(_path(request, flow), held)
        self._held[level], self._bytes = waiting + 1, size
        if len(node.waiting) > flow.level.longest:
            node.waiting.pop()
            order.size -= 1
            self._let_go(held)
            return self._too_many()
        if not self._sweeping:
            self._sweeping = True
            asyncio.get_running_loop().call_later(_SWEEP, self._sweep)
        return held.answer

    def _too_many(self) -> Response:
        self.rejected += 1
        return self._refuse(TooManyRequests("Too many requests, please try again later.", retry_after=1))

    def _let_go(self, held: Held) -> None:
        level = (held.flow.cluster, held.flow.level.name)
        self._held[level] -= 1
        if not self._held[level]:
            del self._held[level]
        self._bytes -= len(held.request.body)

    def _turn(self) -> None:
        """Runs once in each event loop turn that had a request. Starts queued requests while the turn has time left."""
        began = perf_counter()
        self._began = 0.0
        while self.waiting:
            if not (self._serve(self._writes, self._seats.may) | self._serve(self._reads, _anybody)):
                break
            if perf_counter() - began > self._settings.turn:
                break
        if self._reads.size or (self._writes.size and self._seats.free):
            self._began = began
            asyncio.get_running_loop().call_soon(self._turn)

    def _serve(self, order: Order[Held], may_go: Callable[[Hashable], bool]) -> bool:
        found = order.pop(may_go)
        if found is None:
            return False
        held, node = found
        self._let_go(held)
        if held.answer.done():  # the client disconnected
            return True
        self.dispatched += 1
        began = perf_counter()
        try:
            answer = self._begin(held.request, held.flow)
        except Exception as error:
            held.answer.set_exception(error)
            return True
        node.cost = (node.cost + perf_counter() - began + _sending(answer)) / 2
        if isinstance(answer, (Response, StreamResponse, Upgrade)):
            held.answer.set_result(answer)
        else:
            hand_on(asyncio.ensure_future(answer), held.answer)
        return True

    def _sweep(self) -> None:
        """Rejects requests that have waited too long, anywhere in the queue. `_dispatch_next` skips them later."""
        self._sweeping = False
        if not self.waiting:
            return
        latest = perf_counter() - self._settings.patience
        for order in (self._reads, self._writes):
            for held in order.items():
                if held.since < latest and not held.answer.done():
                    held.answer.set_result(self._too_many())
        self._sweeping = True
        asyncio.get_running_loop().call_later(_SWEEP, self._sweep)


def _anybody(_: Hashable) -> bool:
    return True


def _path(request: Request, flow: Flow) -> tuple[tuple[Hashable, float], ...]:
    level = flow.level
    group, plural = LEASES
    if f"/apis/{group}/" in request.path and f"/{plural}/" in request.path:
        return (flow.cluster, 1.0), ((flow.cluster, plural), LEASE_WEIGHT), (flow.name, 1.0)
    return (flow.cluster, 1.0), ((flow.cluster, level.name), max(level.shares, 1)), (flow.name, 1.0)


def _sending(answer: Answer | Awaitable[Answer]) -> float:
    if not isinstance(answer, Response):
        return PER_WRITE
    body = answer.body
    return PER_BYTE * (len(body) if isinstance(body, bytes) else sum(map(len, body)))
