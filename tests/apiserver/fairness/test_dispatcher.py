"""The dispatcher around a recording handler: queuing, exemption and rejection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from shoal.apiserver.fairness.dispatcher import Dispatcher, DispatchSettings
from shoal.apiserver.fairness.flows import Flow, Level
from shoal.apiserver.fairness.seats import Seats
from shoal.objects.errors import StatusError
from shoal.objects.wire import Answer, Request, Response, StreamResponse, Upgrade

pytestmark = pytest.mark.anyio

LEVEL = Level("level", shares=10, queues=True, longest=3, most=5)
REJECTING = Level("rejecting", shares=10)
NEVER = DispatchSettings(turn=-1.0, seats=2, patience=1000.0)
"""The event loop turn never has time left."""


class Kitchen:
    """Serves reads at once, and writes when `finish_write` is called."""

    def __init__(self, settings: DispatchSettings = NEVER, level: Level = LEVEL) -> None:
        self.served: list[str] = []
        self.cooking: dict[str, asyncio.Future[Answer]] = {}
        self.level = level
        seats = Seats(settings.seats, lambda cluster: (level,))
        self.dispatcher = Dispatcher(self.handle, self.flow_of, refused, seats, settings)

    def handle(self, request: Request) -> Answer | Awaitable[Answer]:
        self.served.append(request.path)
        if request.method == "GET":
            return Response(200, b"")
        if request.path == "broken":
            raise RuntimeError("a fault")
        self.cooking[request.path] = asyncio.get_running_loop().create_future()
        return self.cooking[request.path]

    def flow_of(self, request: Request) -> Flow | None:
        return None if request.path == "exempt" else Flow("root", self.level, request.path.split("-")[0], ())

    def ask(self, path: str, method: str = "GET", body: bytes = b"") -> Response | asyncio.Future[Answer]:
        answer = self.dispatcher.handle(Request(method, path, body=body))
        assert not isinstance(answer, (StreamResponse, Upgrade))
        return answer if isinstance(answer, Response) else asyncio.ensure_future(answer)

    def done(self, path: str) -> None:
        self.cooking[path].set_result(Response(201, b""))


def refused(error: StatusError) -> Response:
    return Response(error.status_code, b"")


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_with_time_to_spare_nobody_waits_or_is_asked() -> None:
    kitchen = Kitchen(DispatchSettings(turn=1000.0))
    for number in range(50):
        assert isinstance(kitchen.ask(f"loud-{number}"), Response)
    assert kitchen.dispatcher.waiting == 0


async def test_without_it_flows_take_turns() -> None:
    kitchen = Kitchen(level=Level("level", shares=10, queues=True, longest=50, most=100))
    kitchen.ask("first-0")
    for number in range(3):
        kitchen.ask(f"loud-{number}")
    kitchen.ask("quiet-0")
    assert kitchen.served == ["first-0"]
    await turns(20)
    assert kitchen.served.index("quiet-0") < kitchen.served.index("loud-1")
    assert len(kitchen.served) == 5


async def test_the_exempt_go_at_once() -> None:
    kitchen = Kitchen()
    kitchen.ask("first-0")
    kitchen.ask("loud-0")
    assert isinstance(kitchen.ask("exempt"), Response)
    assert kitchen.served == ["first-0", "exempt"]


async def test_too_many_of_one_flow_and_of_a_level_come_back_later() -> None:
    kitchen = Kitchen()
    kitchen.ask("first-0")
    found = [kitchen.ask(f"loud-{number}") for number in range(4)]
    assert isinstance(found[3], Response)
    assert found[3].status == 429
    assert not any(isinstance(each, Response) for each in found[:3])
    others = [kitchen.ask(f"{name}-0") for name in "abc"]
    assert [isinstance(each, Response) for each in others] == [False, False, True]
    await turns(20)
    assert kitchen.dispatcher.rejected == 2
    assert len(kitchen.served) == 6


async def test_a_level_that_rejects_lets_nobody_wait() -> None:
    kitchen = Kitchen(level=REJECTING)
    kitchen.ask("first-0")
    found = kitchen.ask("second-0")
    assert isinstance(found, Response)
    assert found.status == 429


async def test_bodies_that_wait_have_a_limit() -> None:
    kitchen = Kitchen(DispatchSettings(turn=-1.0, most_bytes=10))
    kitchen.ask("first-0")
    assert not isinstance(kitchen.ask("a-0", "POST", b"12345678"), Response)
    found = kitchen.ask("b-0", "POST", b"12345678")
    assert isinstance(found, Response)
    assert found.status == 429
    await turns()
    assert kitchen.dispatcher._bytes == 0


async def test_writes_wait_for_a_seat_and_reads_go_past_them() -> None:
    kitchen = Kitchen()
    first = kitchen.ask("a-0", "POST")
    rest = [kitchen.ask(f"{name}-0", "POST") for name in "bc"]
    await turns()
    assert sorted(kitchen.cooking) == ["a-0", "b-0"]
    read = kitchen.ask("d-0")
    assert isinstance(read, Response)
    kitchen.done("a-0")
    await turns(10)
    assert "c-0" in kitchen.cooking
    kitchen.done("b-0")
    kitchen.done("c-0")
    await turns(10)
    for each in (first, *rest):
        assert not isinstance(each, Response)
        assert (await each).status == 201


async def test_who_has_gone_is_passed_over_and_who_goes_ends_the_work() -> None:
    kitchen = Kitchen()
    kitchen.ask("first-0")
    gone, other = kitchen.ask("gone-0", "POST"), kitchen.ask("other-0", "POST")
    assert isinstance(gone, asyncio.Future)
    assert isinstance(other, asyncio.Future)
    gone.cancel()
    await turns(10)
    assert kitchen.served == ["first-0", "other-0"]
    other.cancel()
    await turns(10)
    assert kitchen.cooking["other-0"].cancelled()


async def test_a_fault_is_told_to_who_waited() -> None:
    kitchen = Kitchen()
    kitchen.ask("first-0")
    found = kitchen.ask("broken", "POST")
    assert isinstance(found, asyncio.Future)
    await turns()
    with pytest.raises(RuntimeError, match="a fault"):
        await found


async def test_who_waits_too_long_is_told_to_come_back() -> None:
    kitchen = Kitchen(DispatchSettings(turn=-1.0, seats=1, patience=-1.0))
    kitchen.ask("a-0", "POST")
    late = kitchen.ask("b-0", "POST")
    assert isinstance(late, asyncio.Future)
    kitchen.dispatcher._sweep()
    assert (await late).status == 429
    kitchen.done("a-0")
    await turns(10)
    assert "b-0" not in kitchen.cooking
    assert kitchen.dispatcher.waiting == 0
