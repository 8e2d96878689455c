"""The dispatcher around a recording handler: queuing, exemption and rejection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from shoal.apiserver.flowcontrol.dispatcher import DispatcherConfig, RequestDispatcher
from shoal.apiserver.flowcontrol.flowschema import Flow, PriorityLevel
from shoal.apiserver.flowcontrol.seats import SeatAllocator
from shoal.apiserver.http.body_budget import BodyBudget, BodyHold
from shoal.objects.errors import StatusError
from shoal.objects.wire import Answer, Request, Response, StreamResponse, Upgrade

pytestmark = pytest.mark.anyio

LEVEL = PriorityLevel("level", shares=10, is_queuing=True, max_queued_per_flow=3, max_queued=5)
REJECTING = PriorityLevel("rejecting", shares=10)
NO_SLACK = DispatcherConfig(turn_seconds=-1.0, total_seats=2, queue_wait_seconds=1000.0)
"""The event loop turn never has time left."""


class RecordingHandler:
    """Serves reads at once, and writes when `finish_write` is called."""

    def __init__(self, settings: DispatcherConfig = NO_SLACK, level: PriorityLevel = LEVEL) -> None:
        self.served: list[str] = []
        self.contexts: dict[str, str | None] = {}
        self.pending_writes: dict[str, asyncio.Future[Answer]] = {}
        self.level = level
        seats = SeatAllocator(settings.total_seats, lambda cluster: (level,))
        self.dispatcher = RequestDispatcher(self.handle, self.classify, error_response, seats, settings)

    def handle(self, request: Request, ctx: str | None) -> Answer | Awaitable[Answer]:
        self.contexts[request.path] = ctx
        self.served.append(request.path)
        if request.method == "GET":
            return Response(200, b"")
        if request.path == "broken":
            raise RuntimeError("a fault")
        self.pending_writes[request.path] = asyncio.get_running_loop().create_future()
        return self.pending_writes[request.path]

    def classify(self, request: Request) -> tuple[str, Flow | None]:
        flow = None if request.path == "exempt" else Flow("root", self.level, request.path.split("-")[0], ())
        return f"context of {request.path}", flow

    def request(self, path: str, method: str = "GET", body: bytes = b"") -> Response | asyncio.Future[Answer]:
        answer = self.dispatcher.handle(Request(method, path, body=body))
        assert not isinstance(answer, (StreamResponse, Upgrade))
        return answer if isinstance(answer, Response) else asyncio.ensure_future(answer)

    def finish_write(self, path: str) -> None:
        self.pending_writes[path].set_result(Response(201, b""))


def error_response(error: StatusError) -> Response:
    return Response(error.status_code, b"")


async def run_loop(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_with_time_to_spare_nobody_waits_or_is_asked() -> None:
    kitchen = RecordingHandler(DispatcherConfig(turn_seconds=1000.0))
    for number in range(50):
        assert isinstance(kitchen.request(f"loud-{number}"), Response)
    assert kitchen.dispatcher.queue_length == 0


async def test_without_it_flows_take_turns() -> None:
    kitchen = RecordingHandler(
        level=PriorityLevel("level", shares=10, is_queuing=True, max_queued_per_flow=50, max_queued=100)
    )
    kitchen.request("first-0")
    for number in range(3):
        kitchen.request(f"loud-{number}")
    kitchen.request("quiet-0")
    assert kitchen.served == ["first-0"]
    await run_loop(20)
    assert kitchen.served.index("quiet-0") < kitchen.served.index("loud-1")
    assert len(kitchen.served) == 5


async def test_the_exempt_go_at_once() -> None:
    kitchen = RecordingHandler()
    kitchen.request("first-0")
    kitchen.request("loud-0")
    assert isinstance(kitchen.request("exempt"), Response)
    assert kitchen.served == ["first-0", "exempt"]


async def test_the_handler_gets_the_context_of_the_classification() -> None:
    kitchen = RecordingHandler()
    for path in ("first-0", "loud-0", "exempt"):
        kitchen.request(path)
    await run_loop(10)
    # The first one was served as it came and not classified.
    assert kitchen.contexts == {
        "first-0": None,
        "loud-0": "context of loud-0",
        "exempt": "context of exempt",
    }


async def test_too_many_of_one_flow_and_of_a_level_come_back_later() -> None:
    kitchen = RecordingHandler()
    kitchen.request("first-0")
    found = [kitchen.request(f"loud-{number}") for number in range(4)]
    assert isinstance(found[3], Response)
    assert found[3].status == 429
    assert not any(isinstance(each, Response) for each in found[:3])
    others = [kitchen.request(f"{name}-0") for name in "abc"]
    assert [isinstance(each, Response) for each in others] == [False, False, True]
    await run_loop(20)
    assert kitchen.dispatcher.rejected_total == 2
    assert len(kitchen.served) == 6


async def test_a_level_that_rejects_lets_nobody_wait() -> None:
    kitchen = RecordingHandler(level=REJECTING)
    kitchen.request("first-0")
    found = kitchen.request("second-0")
    assert isinstance(found, Response)
    assert found.status == 429


async def test_bodies_that_wait_count_as_their_flows() -> None:
    kitchen, bodies = RecordingHandler(), BodyBudget(4 * 300)
    kitchen.request("first-0")

    def post(path: str) -> tuple[Answer | Awaitable[Answer], BodyHold]:
        hold = bodies.hold(100, 100)
        return kitchen.dispatcher.handle(Request("POST", path, body=b"x" * 100, hold=hold)), hold

    waiting, hold = post("a-0")
    assert not isinstance(waiting, Response)
    refused, _ = post("a-1")
    assert isinstance(refused, Response)
    assert refused.status == 429
    assert bodies.held_bytes == 100
    hold.release()
    assert bodies.held_bytes == 0


async def test_the_body_of_a_client_that_went_away_does_not_wait() -> None:
    kitchen = RecordingHandler()
    kitchen.request("first-0")
    response = kitchen.request("a-0", "POST", b"x" * 100)
    assert isinstance(response, asyncio.Future)
    (item,) = kitchen.dispatcher._writes.items()
    response.cancel()
    await asyncio.sleep(0)
    assert item.request.body == b""


async def test_writes_wait_for_a_seat_and_reads_go_past_them() -> None:
    kitchen = RecordingHandler()
    first = kitchen.request("a-0", "POST")
    rest = [kitchen.request(f"{name}-0", "POST") for name in "bc"]
    await run_loop()
    assert sorted(kitchen.pending_writes) == ["a-0", "b-0"]
    read = kitchen.request("d-0")
    assert isinstance(read, Response)
    kitchen.finish_write("a-0")
    await run_loop(10)
    assert "c-0" in kitchen.pending_writes
    kitchen.finish_write("b-0")
    kitchen.finish_write("c-0")
    await run_loop(10)
    for each in (first, *rest):
        assert not isinstance(each, Response)
        assert (await each).status == 201


async def test_who_has_gone_is_passed_over_and_who_goes_ends_the_work() -> None:
    kitchen = RecordingHandler()
    kitchen.request("first-0")
    gone, other = kitchen.request("gone-0", "POST"), kitchen.request("other-0", "POST")
    assert isinstance(gone, asyncio.Future)
    assert isinstance(other, asyncio.Future)
    gone.cancel()
    await run_loop(10)
    assert kitchen.served == ["first-0", "other-0"]
    other.cancel()
    await run_loop(10)
    assert kitchen.pending_writes["other-0"].cancelled()


async def test_a_fault_is_told_to_who_waited() -> None:
    kitchen = RecordingHandler()
    kitchen.request("first-0")
    found = kitchen.request("broken", "POST")
    assert isinstance(found, asyncio.Future)
    await run_loop()
    with pytest.raises(RuntimeError, match="a fault"):
        await found


async def test_who_waits_too_long_is_told_to_come_back() -> None:
    kitchen = RecordingHandler(DispatcherConfig(turn_seconds=-1.0, total_seats=1, queue_wait_seconds=-1.0))
    kitchen.request("a-0", "POST")
    late = kitchen.request("b-0", "POST")
    assert isinstance(late, asyncio.Future)
    kitchen.dispatcher._sweep()
    assert (await late).status == 429
    kitchen.finish_write("a-0")
    await run_loop(10)
    assert "b-0" not in kitchen.pending_writes
    assert kitchen.dispatcher.queue_length == 0
