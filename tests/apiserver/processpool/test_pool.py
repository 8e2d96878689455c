"""The pool of child processes: limits of a task, fairness, and what becomes of the processes."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from shoal.apiserver.processpool.pool import ProcessPool, ProcessPoolConfig
from shoal.objects.errors import Conflict, InternalError, TimedOut, TooLarge, TooManyRequests, Unavailable

MODULE = "tests.apiserver.processpool.tasks"
MIB = 1024 * 1024

MakePool = Callable[..., ProcessPool]


@pytest.fixture
async def make_pool(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[MakePool]:
    root = Path(__file__).parents[3]
    monkeypatch.setenv("PYTHONPATH", f"{root}:{root / 'src'}")
    monkeypatch.setenv("SHOAL_JOIN_TOKEN", "secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    pools: list[ProcessPool] = []

    def make(**config: object) -> ProcessPool:
        pools.append(ProcessPool(MODULE, ProcessPoolConfig(**config)))  # type: ignore[arg-type]
        return pools[-1]

    yield make
    for pool in pools:
        pids = [process.pid for process in pool.processes]
        await pool.close()
        assert not pool.processes
        assert not any(map(is_running, pids))


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def cpu_limit_and_use(pid: int) -> tuple[int, float]:
    ticks = sum(map(int, Path(f"/proc/{pid}/stat").read_text().split()[13:15]))
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    soft = next(line for line in lines if line.startswith("Max cpu time")).split()[3]
    return int(soft), ticks / os.sysconf("SC_CLK_TCK")


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def test_a_task_gets_and_returns_data(make_pool: MakePool) -> None:
    pool = make_pool()
    assert not pool.processes  # none before the first task
    large = os.urandom(3 * MIB)
    assert await pool.call("a", "echo", {"x": [1, None, "é"]}, [large, b"", b"b"]) == (
        {"x": [1, None, "é"]},
        [large, b"", b"b"],
    )
    assert len(pool.processes) == 1
    assert pool.outcomes["completed"] == 1


async def test_errors_of_a_task_are_raised(make_pool: MakePool, caplog: pytest.LogCaptureFixture) -> None:
    pool = make_pool()
    with pytest.raises(Conflict) as refused:
        await pool.call("a", "refuse", {}, [])
    assert refused.value.to_status() == Conflict("no", name="a", group="g", kind="things", uid="u").to_status()
    with pytest.raises(InternalError) as failed:
        await pool.call("a", "fail", {}, [])
    assert failed.value.message == "Internal error occurred: KeyError"
    assert "KeyError: 'gone'" in caplog.text
    assert len(pool.processes) == 1  # it goes on


async def test_a_task_that_burns_cpu_ends_with_504(make_pool: MakePool) -> None:
    pool = make_pool(cpu_seconds=1)
    with pytest.raises(TimedOut) as caught:
        await pool.call("a", "spin", {}, [])
    assert (
        caught.value.message
        == "the request needs more than 1 seconds of CPU time; send a smaller object or a smaller patch"
    )
    assert (await pool.call("a", "echo", {"x": 1}, []))[0] == {"x": 1}
    assert pool.outcomes | {"completed": 1, "cpu_limit": 1} == pool.outcomes


async def test_the_cpu_time_of_earlier_tasks_does_not_count(make_pool: MakePool) -> None:
    pool = make_pool(cpu_seconds=1, max_processes=1)
    await pool.call("a", "echo", {}, [])
    limit, used = cpu_limit_and_use(next(iter(pool.processes)).pid)
    assert limit >= int(used) + 1


async def test_a_task_that_waits_is_killed(make_pool: MakePool) -> None:
    pool = make_pool(wall_seconds=0.5)
    with pytest.raises(TimedOut) as caught:
        await pool.call("a", "sleep", {}, [])
    assert caught.value.message == ("the request needs more than 0.5 seconds; send a smaller object or a smaller patch")
    assert not pool.processes


async def test_a_task_that_needs_too_much_memory_ends_with_413(make_pool: MakePool) -> None:
    pool = make_pool(memory_bytes=512 * MIB)
    with pytest.raises(TooLarge) as caught:
        await pool.call("a", "allocate", {"bytes": 600 * MIB}, [])
    assert caught.value.message == (
        "the request needs more than 512 MiB of memory; send a smaller object or a smaller patch"
    )
    assert (await pool.call("a", "allocate", {"bytes": 10 * MIB}, []))[0] == {"length": 10 * MIB}


async def test_a_process_that_is_killed_is_replaced_once(make_pool: MakePool, tmp_path: Path) -> None:
    pool, file = make_pool(), tmp_path / "go"
    call = asyncio.ensure_future(pool.call("a", "wait_for_file", {"file": str(file)}, []))
    await until(lambda: len(pool.processes) == 1)
    first = next(iter(pool.processes)).pid
    os.kill(first, signal.SIGKILL)
    await until(lambda: [process.pid for process in pool.processes] not in ([], [first]))
    file.touch()
    assert await call == ({}, [])

    file.unlink()
    call = asyncio.ensure_future(pool.call("a", "wait_for_file", {"file": str(file)}, []))
    killed: set[int] = set()
    while not call.done():
        for process in list(pool.processes):
            if process.pid not in killed:
                killed.add(process.pid)
                os.kill(process.pid, signal.SIGKILL)
        await asyncio.sleep(0.01)
    with pytest.raises(Unavailable) as caught:
        await call
    assert caught.value.message == "the process that handled the request has ended; please try again"
    assert len(killed) == 2


async def test_an_idle_process_that_was_killed_is_not_noticed(make_pool: MakePool) -> None:
    pool = make_pool()
    await pool.call("a", "echo", {}, [])
    os.kill(next(iter(pool.processes)).pid, signal.SIGKILL)
    assert (await pool.call("a", "echo", {"x": 1}, []))[0] == {"x": 1}


async def test_a_process_without_work_ends(make_pool: MakePool) -> None:
    pool = make_pool(idle_seconds=0.05)
    await pool.call("a", "echo", {}, [])
    await until(lambda: not pool.processes)


async def test_clusters_take_turns(make_pool: MakePool, tmp_path: Path) -> None:
    pool, file = make_pool(max_processes=2), tmp_path / "go"
    greedy = [asyncio.ensure_future(pool.call("a", "wait_for_file", {"file": str(file)}, [])) for _ in range(5)]
    await until(lambda: len(pool.processes) == 1)
    # One process is left for others, however long the queue of the first cluster is.
    assert (await pool.call("b", "echo", {"x": 1}, []))[0] == {"x": 1}
    assert not any(call.done() for call in greedy)
    order: list[str] = []

    async def record(cluster: str) -> None:
        await pool.call(cluster, "echo", {}, [])
        order.append(cluster)

    holding = asyncio.ensure_future(pool.call("c", "wait_for_file", {"file": str(file)}, []))
    await until(lambda: len(pool.processes) == 2 and pool.queue_length == 4)
    waiting = [asyncio.ensure_future(record(cluster)) for cluster in ("d", "d", "d", "e", "e")]
    await asyncio.sleep(0)
    file.touch()
    await asyncio.gather(holding, *greedy, *waiting)
    assert order.index("e") < 2  # not after all of d


async def test_the_queue_is_bounded(make_pool: MakePool, tmp_path: Path) -> None:
    pool, file = make_pool(max_processes=1, max_queued_per_cluster=2, max_queued=3), tmp_path / "go"

    def call(cluster: str) -> asyncio.Future[object]:
        return asyncio.ensure_future(pool.call(cluster, "wait_for_file", {"file": str(file)}, []))

    calls = [call("a")]
    await until(lambda: len(pool.processes) == 1)
    calls += [call("a"), call("a")]
    await asyncio.sleep(0)
    for cluster in ("a", "b"):
        if cluster == "b":
            calls.append(call("b"))
            await asyncio.sleep(0)
        with pytest.raises(TooManyRequests) as caught:
            await pool.call(cluster, "echo", {}, [])
        assert caught.value.retry_after == 1
    file.touch()
    await asyncio.gather(*calls)
    assert pool.outcomes["rejected"] == 2
    assert pool.queue_length == 0


async def test_queued_bytes_are_bounded(make_pool: MakePool) -> None:
    pool = make_pool(max_queued_bytes=MIB)
    with pytest.raises(TooManyRequests):
        await pool.call("a", "echo", {}, [bytes(MIB + 1)])
    await pool.call("a", "echo", {}, [bytes(MIB)])


async def test_a_client_that_goes_leaves_the_queue(make_pool: MakePool, tmp_path: Path) -> None:
    pool, file = make_pool(max_processes=1), tmp_path / "go"
    running = asyncio.ensure_future(pool.call("a", "wait_for_file", {"file": str(file)}, []))
    await until(lambda: len(pool.processes) == 1)
    waiting = asyncio.ensure_future(pool.call("a", "echo", {}, [b"body"]))
    await asyncio.sleep(0)
    assert pool.queue_length == 1
    waiting.cancel()
    running.cancel()
    await asyncio.gather(waiting, running, return_exceptions=True)
    assert pool.queue_length == 0
    file.touch()  # the process finishes what nobody waits for, and is used again
    pid = next(iter(pool.processes)).pid
    assert (await pool.call("a", "describe", {}, []))[0]["pid"] == pid


async def test_a_process_has_nothing_of_the_server(make_pool: MakePool) -> None:
    pool = make_pool()
    found, _ = await pool.call("a", "describe", {}, [])
    assert set(found["environment"]) <= {"LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "PATH", "PYTHONPATH"}
    sockets = [file for file in found["files"] if file.startswith("socket:")]
    assert len(set(sockets)) == 1  # the one it answers on
    assert not [file for file in found["files"] if file.startswith("/") and not file.startswith("/dev/")]


async def test_close_ends_running_tasks(make_pool: MakePool) -> None:
    pool = make_pool()
    call = asyncio.ensure_future(pool.call("a", "sleep", {}, []))
    await until(lambda: len(pool.processes) == 1)
    await pool.close()
    assert not pool.processes
    assert isinstance((await asyncio.gather(call, return_exceptions=True))[0], asyncio.CancelledError)
