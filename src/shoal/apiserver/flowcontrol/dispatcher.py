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
from typing import Generic, TypeVar

from shoal.apiserver.aio import forward_result
from shoal.apiserver.flowcontrol.fairqueue import FairQueue
from shoal.apiserver.flowcontrol.flowschema import Flow
from shoal.apiserver.flowcontrol.seats import SeatAllocator
from shoal.apiserver.flowcontrol.slices import QueuePath
from shoal.apiserver.request.info import READ_METHODS
from shoal.objects.errors import StatusError, TooManyRequests
from shoal.objects.wire import Answer, BodyHold, Request, Response, StreamResponse, Upgrade

C = TypeVar("C")
"""The context of a request, which is handed from the classification to the handler."""

SECONDS_PER_BYTE = 1e-9
"""Estimated seconds to send one byte: encryption and copies."""
SECONDS_PER_WRITE = 0.0005
"""Estimated seconds of a write: most of its work is done after it was started."""
LEASE_RESOURCE = "coordination.k8s.io", "leases"
LEASE_WEIGHT = 100.0
"""Weight of a cluster's Leases beside the shares of its priority levels: leaders must be able to renew."""
_SWEEP_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class DispatcherConfig:
    turn_seconds: float = 0.02
    """Seconds of one event loop turn that are given to requests."""
    total_seats: int = 200
    """Maximum of concurrent client writes."""
    queue_wait_seconds: float = 15.0
    """Seconds a request may wait in its queue."""
    classify_bodies_above: int = 16 * 1024
    """Requests with larger bodies are always classified: their bodies count as their flow's."""


@dataclass(eq=False, slots=True)
class QueuedRequest(Generic[C]):
    request: Request
    ctx: C | None
    flow: Flow
    queued_at: float
    response: asyncio.Future[Answer]

    def drop_abandoned_body(self, _: asyncio.Future[Answer]) -> None:
        """The item stays in its queue when its client disconnects. Its body does not."""
        self.request = Request(self.request.method, self.request.path)


class RequestDispatcher(Generic[C]):
    def __init__(
        self,
        handler: Callable[[Request, C | None], Answer | Awaitable[Answer]],
        classify: Callable[[Request], tuple[C | None, Flow | None]],
        error_response: Callable[[StatusError], Response],
        seats: SeatAllocator,
        config: DispatcherConfig | None = None,
    ) -> None:
        """`classify` returns a context for the handler, so that nothing is done twice, and the flow. A request without
        a flow never waits.
        """
        self._handler, self._classify, self._error_response = handler, classify, error_response
        self._seats = seats
        self._config = config or DispatcherConfig()
        self._reads: FairQueue[QueuedRequest[C]] = FairQueue()
        self._writes: FairQueue[QueuedRequest[C]] = FairQueue()
        self._queued_by_level: dict[tuple[str, str], int] = {}
        """Number of queued requests by cluster and priority level."""
        self._turn_started = 0.0
        """Start of the current event loop turn. 0: no request was served in it yet."""
        self._sweep_scheduled = False
        self.rejected_total = 0
        self.dispatched_total = 0
        """Number of requests that were queued and then started."""

    @property
    def queue_length(self) -> int:
        return self._reads.size + self._writes.size

    def handle(self, request: Request) -> Answer | Awaitable[Answer]:
        has_slack = self._has_slack(request)
        if has_slack and (request.hold is None or self._needs_no_owner(request, request.hold)):
            return self._start(request, None, None)
        ctx, flow = self._classify(request)
        hold = request.hold
        if hold is not None and not hold.is_assigned and not hold.assign(flow.body_owner if flow else None):
            return self._reject()
        if flow is None or has_slack:
            return self._start(request, ctx, None)
        return self._enqueue(request, ctx, flow)

    def _needs_no_owner(self, request: Request, hold: BodyHold) -> bool:
        return hold.is_assigned or len(request.body) <= self._config.classify_bodies_above

    def charge_read(self, path: QueuePath, seconds: float) -> None:
        """Counts the time of a slice for the flow whose long read had it."""
        self._reads.charge(path, seconds)

    def _has_slack(self, request: Request) -> bool:
        if not self._turn_started:
            self._turn_started = perf_counter()
            asyncio.get_running_loop().call_soon(self._drain)
        elif perf_counter() - self._turn_started > self._config.turn_seconds:
            return False
        if request.method in READ_METHODS:
            return not self._reads.size
        return not self._writes.size and self._seats.has_slack

    def _start(self, request: Request, ctx: C | None, flow: Flow | None) -> Answer | Awaitable[Answer]:
        answer = self._handler(request, ctx)
        if request.method in READ_METHODS or isinstance(answer, (Response, StreamResponse, Upgrade)):
            return answer
        task = asyncio.ensure_future(answer)
        key = (flow.cluster, flow.level.name) if flow is not None else None
        self._seats.acquire(key)
        task.add_done_callback(lambda _: self._on_write_done(key))
        return task

    def _on_write_done(self, key: tuple[str, str] | None) -> None:
        self._seats.release(key)
        if self._writes.size and not self._turn_started:
            self._turn_started = perf_counter()
            asyncio.get_running_loop().call_soon(self._drain)

    # --- queued requests ---

    def _enqueue(self, request: Request, ctx: C | None, flow: Flow) -> Answer | Awaitable[Answer]:
        queue = self._reads if request.method in READ_METHODS else self._writes
        item = QueuedRequest(request, ctx, flow, perf_counter(), asyncio.get_running_loop().create_future())
        level = (flow.cluster, flow.level.name)
        level_queued = self._queued_by_level.get(level, 0)
        if not flow.level.is_queuing or level_queued >= flow.level.max_queued:
            return self._reject()
        node = queue.push(_queue_path(request, flow), item)
        self._queued_by_level[level] = level_queued + 1
        if len(node.queue) > flow.level.max_queued_per_flow:
            node.queue.pop()
            queue.size -= 1
            self._discount(item)
            return self._reject()
        if request.body:
            item.response.add_done_callback(item.drop_abandoned_body)
        if not self._sweep_scheduled:
            self._sweep_scheduled = True
            asyncio.get_running_loop().call_later(_SWEEP_SECONDS, self._sweep)
        return item.response

    def _reject(self) -> Response:
        self.rejected_total += 1
        return self._error_response(TooManyRequests("Too many requests, please try again later.", retry_after=1))

    def _discount(self, item: QueuedRequest[C]) -> None:
        level = (item.flow.cluster, item.flow.level.name)
        self._queued_by_level[level] -= 1
        if not self._queued_by_level[level]:
            del self._queued_by_level[level]

    def _drain(self) -> None:
        """Runs once in each event loop turn that had a request. Starts queued requests while the turn has time left."""
        started = perf_counter()
        self._turn_started = 0.0
        while self.queue_length:
            if not (
                self._dispatch_next(self._writes, self._seats.can_acquire)
                | self._dispatch_next(self._reads, _always_eligible)
            ):
                break
            if perf_counter() - started > self._config.turn_seconds:
                break
        if self._reads.size or (self._writes.size and self._seats.has_free):
            self._turn_started = started
            asyncio.get_running_loop().call_soon(self._drain)

    def _dispatch_next(self, queue: FairQueue[QueuedRequest[C]], is_eligible: Callable[[Hashable], bool]) -> bool:
        popped = queue.pop(is_eligible)
        if popped is None:
            return False
        item, node = popped
        self._discount(item)
        if item.response.done():  # the client disconnected
            return True
        self.dispatched_total += 1
        started = perf_counter()
        try:
            answer = self._start(item.request, item.ctx, item.flow)
        except Exception as error:
            item.response.set_exception(error)
            return True
        node.cost = (node.cost + perf_counter() - started + _sending_cost(answer)) / 2
        if isinstance(answer, (Response, StreamResponse, Upgrade)):
            item.response.set_result(answer)
        else:
            forward_result(asyncio.ensure_future(answer), item.response)
        return True

    def _sweep(self) -> None:
        """Rejects requests that have waited too long, anywhere in the queue. `_dispatch_next` skips them later."""
        self._sweep_scheduled = False
        if not self.queue_length:
            return
        oldest = perf_counter() - self._config.queue_wait_seconds
        for queue in (self._reads, self._writes):
            for item in queue.items():
                if item.queued_at < oldest and not item.response.done():
                    item.response.set_result(self._reject())
        self._sweep_scheduled = True
        asyncio.get_running_loop().call_later(_SWEEP_SECONDS, self._sweep)


def _always_eligible(_: Hashable) -> bool:
    return True


def _queue_path(request: Request, flow: Flow) -> QueuePath:
    level = flow.level
    group, plural = LEASE_RESOURCE
    if f"/apis/{group}/" in request.path and f"/{plural}/" in request.path:
        return (flow.cluster, 1.0), ((flow.cluster, plural), LEASE_WEIGHT), (flow.name, 1.0)
    return (flow.cluster, 1.0), ((flow.cluster, level.name), max(level.shares, 1)), (flow.name, 1.0)


def _sending_cost(answer: Answer | Awaitable[Answer]) -> float:
    if not isinstance(answer, Response):
        return SECONDS_PER_WRITE
    body = answer.body
    return SECONDS_PER_BYTE * (len(body) if isinstance(body, bytes) else sum(map(len, body)))
