"""The kind command as a process: its input, its output, and its termination."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import uvloop

from shoal.capi.providers.kind import private_directory
from shoal.capi.providers.kind.command import KindCommand
from shoal.capi.providers.kind.errors import KindError
from tests.capi.kind.fake_kind import Standin
from tests.capi.kind.test_crashes import commands_running

pytestmark = pytest.mark.anyio


@pytest.fixture
def standin(tmp_path: Path) -> Standin:
    return Standin(tmp_path)


def scripted(standin: Standin, text: str) -> KindCommand:
    """A kind that is a shell script."""
    standin.program.write_text(f"#!/bin/sh\n{text}\n")
    return KindCommand(environment={**standin.environment, "PATH": f"{standin.path}:{os.environ['PATH']}"})


async def test_kind_never_sees_the_kubeconfig_of_the_user(standin: Standin, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    command = scripted(standin, f'echo "$KUBECONFIG" > {seen}; ls -ld "$(dirname "$KUBECONFIG")" >> {seen}')
    await command.delete("a", print)
    path, listed = seen.read_text().splitlines()
    assert not path.startswith(str(tmp_path))
    assert listed.startswith("drwx------")
    assert not Path(path).parent.exists()
    assert not (tmp_path / ".kube").exists()


async def test_every_line_is_heard_and_the_last_ones_are_kept(standin: Standin) -> None:
    lines: list[str] = []
    noisy = 'i=0; while [ $i -lt 500 ]; do echo " line $i" >&2; i=$((i+1)); done; echo "ERROR: it broke" >&2; exit 1'
    with pytest.raises(KindError) as raised:
        await scripted(standin, noisy).create("a", {}, lines.append)
    assert lines[:2] == ["line 0", "line 1"]
    assert len(lines) == 501
    assert raised.value.message == "kind create cluster: it broke"


async def test_a_line_without_end_and_bytes_that_are_no_text(standin: Standin) -> None:
    lines: list[str] = []
    await scripted(standin, "head -c 300000 /dev/zero | tr '\\0' x >&2; printf '\\n\\377ok' >&2").create(
        "a", {}, lines.append
    )
    assert len(lines[0]) <= 1 << 17
    assert lines[-1].endswith("ok")


async def test_a_process_that_is_not_wanted_ends_with_its_children(
    standin: Standin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.capi.providers.kind.process.TERMINATE_SECONDS", 0.1)
    up = asyncio.Event()
    command = scripted(standin, f"trap '' TERM; sleep 1000.{os.getpid()} & echo up >&2; wait; wait")
    task = asyncio.create_task(command.create("a", {}, lambda line: up.set()))
    await up.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not any(f"1000.{os.getpid()}".encode() in running for running in commands_running())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
async def test_kind_does_not_outlive_a_shoal_that_is_killed(standin: Standin) -> None:
    scripted(standin, f"echo up >&2; exec sleep 2000.{os.getpid()}")
    program = (
        "import asyncio, sys; from shoal.capi.providers.kind.command import KindCommand;"
        "asyncio.run(KindCommand(sys.argv[1]).create('a', {}, lambda line: print(line, flush=True)))"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program, str(standin.program)),
        env={**os.environ, "PATH": f"{standin.path}:{os.environ['PATH']}", "TMPDIR": str(standin.state)},
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"up\n"
    process.kill()
    await process.wait()
    for _ in range(3000):
        if not any(f"2000.{os.getpid()}".encode() in running for running in commands_running()):
            return
        await asyncio.sleep(0.01)
    raise AssertionError("kind goes on")


async def test_a_kind_that_takes_too_long(standin: Standin) -> None:
    scripted(standin, "exec sleep 1000")
    command = KindCommand(
        environment={**standin.environment, "PATH": f"{standin.path}:{os.environ['PATH']}"}, timeout=0.2
    )
    with pytest.raises(KindError) as raised:
        await command.clusters()
    assert (raised.value.reason, raised.value.message) == ("TimedOut", "kind get clusters did not finish within 0 s")


async def test_the_engine_that_was_chosen_has_to_be_there(standin: Standin) -> None:
    command = KindCommand(engine="podman", environment=standin.environment)
    with pytest.raises(KindError) as raised:
        await command.clusters()
    assert raised.value.reason == "EngineNotFound"
    assert raised.value.message == "the container engine podman was not found: install it where Shoal runs"
    seen = standin.state / "seen"
    scripted(standin, f'printf %s "$KIND_EXPERIMENTAL_PROVIDER" > {seen}')
    await KindCommand(engine="docker", environment={**standin.environment, "PATH": f"{standin.path}:/bin"}).clusters()
    assert seen.read_text() == "docker"


async def test_a_kind_that_cannot_be_run(standin: Standin) -> None:
    with pytest.raises(KindError) as raised:
        await KindCommand("nokind", environment=standin.environment).clusters()
    assert raised.value.reason == "KindNotFound"
    standin.program.write_text("no program")
    assert standin.program.stat().st_mode & stat.S_IXUSR
    with pytest.raises(KindError) as raised:
        await KindCommand(environment=standin.environment).clusters()
    assert "Exec format error" in raised.value.message


def test_a_kind_that_has_ended_before_it_is_looked_at(standin: Standin) -> None:
    """On the event loop of servers, where what was sent to such a process was another error than a broken pipe."""

    async def all_answer() -> None:
        command = scripted(standin, "exit 0")
        busy = asyncio.create_task(_keep_busy())
        config = {"kubeadmConfigPatches": ["x" * 300_000]}
        await asyncio.gather(
            *(command.clusters() for _ in range(10)), *(command.create(f"c{i}", config, print) for i in range(10))
        )
        busy.cancel()

    uvloop.run(all_answer())


async def _keep_busy() -> None:
    while True:
        sum(range(100_000))
        await asyncio.sleep(0)


async def test_of_two_processes_that_want_one_name_the_second_is_told(standin: Standin) -> None:
    up, goes_on = asyncio.Event(), standin.state / "goes-on"
    first = scripted(standin, f"echo up >&2; while [ ! -e {goes_on} ]; do sleep 0.01; done")
    second = KindCommand(environment=first._environment)
    task = asyncio.create_task(first.create("a", {}, lambda line: up.set()))
    await up.wait()
    for call in (second.create("a", {}, print), second.delete("a", print)):
        with pytest.raises(KindError) as raised:
            await call
        assert (raised.value.reason, raised.value.message) == (
            "NameBusy",
            "another process on this machine is creating or deleting the kind cluster a",
        )
    elsewhere = KindCommand(environment={**first._environment, "DOCKER_HOST": "tcp://another:1"})
    goes_on.touch()
    await elsewhere.delete("a", print)
    await task
    await second.delete("a", print)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the environment of processes")
async def test_what_a_killed_shoal_left_is_ended_and_removed(standin: Standin, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that kind has called goes on, and could still create a container; the kubeconfig is a credential."""
    directory = standin.state / "tmp"
    directory.mkdir()
    scripted(standin, f"sleep 3000.{os.getpid()} & echo secret > $KUBECONFIG; echo up >&2; wait")
    program = (
        "import asyncio, sys; from shoal.capi.providers.kind.command import KindCommand;"
        "asyncio.run(KindCommand(sys.argv[1]).create('a', {}, lambda line: print(line, flush=True)))"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program, str(standin.program)),
        env={**os.environ, "PATH": f"{standin.path}:{os.environ['PATH']}", "TMPDIR": str(directory)},
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"up\n"
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    monkeypatch.setattr(private_directory, "MEMORY", directory)
    (running,) = directory.iterdir()
    assert private_directory.end_orphans() == []
    assert (running / "kubeconfig").read_text() == "secret\n"
    process.kill()
    await process.wait()
    for _ in range(3000):
        if private_directory.end_orphans() == [running]:
            break
        await asyncio.sleep(0.01)
    assert list(directory.iterdir()) == []
    for _ in range(3000):
        if not any(f"3000.{os.getpid()}".encode() in command for command in commands_running()):
            return
        await asyncio.sleep(0.01)
    raise AssertionError("what kind has called goes on")


async def test_a_full_disk_is_reported_and_clusters_can_be_deleted(
    standin: Standin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdtemp: Any = tempfile.mkdtemp

    def full(*args: Any, **options: Any) -> str:
        if "dir" not in options:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/tmp/shoal-kind-x")
        return str(mkdtemp(*args, **options))

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    memory = tmp_path / "memory"
    monkeypatch.setattr(private_directory, "MEMORY", memory)
    command = scripted(standin, "exit 0")
    with pytest.raises(KindError) as raised:
        await command.create("a", {}, print)
    assert raised.value.reason == "NoSpaceLeft"
    assert raised.value.message == (
        "a disk is full, make room on it: kind create cluster: [Errno 28] No space left on device: '/tmp/shoal-kind-x'"
    )
    assert await command.clusters() == frozenset()
    memory.mkdir()
    await command.delete("a", print)
    assert list(memory.iterdir()) == []
