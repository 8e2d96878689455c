"""What KINDClusters do beyond being created, with real containers: images, replacement, mounts, an engine that goes
away, full disks, and two Shoals on one engine.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.capi.kind.kind_environment import condition
from tests.real.containers.engine import Engine
from tests.real.containers.workload_images import BUSYBOX, NGINX
from tests.real.kind_fleet import KindFleet, own_prefix

pytestmark = pytest.mark.containers
Object = dict[str, Any]
Start = Callable[..., KindFleet]


@pytest.fixture
def start(engine: Engine, tmp_path: Path) -> Iterator[Start]:
    fleets: list[KindFleet] = []

    def started(word: str, **environment: str) -> KindFleet:
        fleet = KindFleet(tmp_path / word, own_prefix(word), os.environ | environment)
        fleets.append(fleet)
        return fleet

    yield started
    for fleet in fleets:
        fleet.end()


def says(fleet: KindFleet, name: str, reason: str, type_: str = "Ready") -> Object:
    found: Object = {}

    def look() -> bool:
        nonlocal found
        found = fleet.get(name)
        return condition(found, type_).get("reason") == reason

    fleet.until(look, lambda: f"{name} does not say {reason}: {found.get('status')}")
    return found


def crictl(fleet: KindFleet, node: str) -> set[str]:
    """The images of a node."""
    lines = fleet.docker("exec", node, "crictl", "images").splitlines()[1:]
    return {":".join(line.split()[:2]) for line in lines}


def test_images_mounts_patches_steps_and_a_replacement(start: Start, tmp_path: Path) -> None:
    fleet = start("depth")
    shared = tmp_path / "certs.d" / "docker.io"
    shared.mkdir(parents=True)
    (shared / "hosts.toml").write_text('[host."http://127.0.0.1:5000"]\n')
    patch = '[plugins."io.containerd.cri.v1.images".registry]\n  config_path = "/etc/containerd/certs.d"\n'
    own = f"{fleet.prefix}/app:1"
    fleet.docker("tag", BUSYBOX, own)
    mount = {"hostPath": str(shared.parent), "containerPath": "/etc/containerd/certs.d", "readOnly": True}
    try:
        name = fleet.create(
            images=[own, "nowhere.example/none:1"],
            nodes=[{"role": "control-plane", "extraMounts": [mount]}],
            config={"containerdConfigPatches": [patch]},
        )
        node = f"{name}-control-plane"
        obj = says(fleet, name, "ImagesMissing", "ImagesLoaded")
        assert condition(obj, "ImagesLoaded")["message"] == (
            f"missing in the container engine: nowhere.example/none:1; loaded into all nodes: {own}"
        )
        steps = [each["type"] for each in obj["status"]["conditions"] if each["reason"] == "Done"]
        assert steps == [
            *("NodeImagePresent", "NodesPrepared", "ConfigurationWritten", "ControlPlaneStarted"),
            *("CNIInstalled", "StorageClassInstalled"),
        ]
        assert f"docker.io/{own}" in crictl(fleet, node)
        # What kind was given is what containerd has.
        config = fleet.docker("exec", node, "containerd", "config", "dump")
        assert "/etc/containerd/certs.d" in config
        assert "5000" in fleet.docker("exec", node, "cat", "/etc/containerd/certs.d/docker.io/hosts.toml")
        with pytest.raises(subprocess.CalledProcessError):
            fleet.docker("exec", node, "touch", "/etc/containerd/certs.d/x")
        # Another image of that name is loaded by the next comparison.
        old = obj["status"]["cluster"]["images"]
        fleet.docker("tag", NGINX, own)
        fleet.patch(name, {"images": [own]})
        fleet.until(lambda: fleet.get(name)["status"]["cluster"]["images"] != old, lambda: "the same image")
        says(fleet, name, "Loaded", "ImagesLoaded")
        # Other nodes: the kind cluster is replaced, and gets the image anew.
        first = fleet.get(name)["status"]["cluster"]["id"]
        nodes = [{"role": "control-plane"}, {"role": "worker"}]
        fleet.patch(name, {"nodes": nodes})
        obj = says(fleet, name, "ChangeRefused", "UpToDate")
        assert "nodes are 1 control-plane, 1 worker, the cluster was created with 1 control-plane" in str(obj["status"])
        fleet.patch(name, {"replacePolicy": "Replace"})
        says(fleet, name, "Replacing", "UpToDate")
        says(fleet, name, "UpToDate", "UpToDate")
        obj = says(fleet, name, "Loaded", "ImagesLoaded")
        assert obj["status"]["cluster"]["id"] != first
        assert {"Replacing", "Replaced"} <= {entry["reason"] for entry in obj["status"]["history"]}
        assert condition(obj, "WorkersJoined")["status"] == "True"
        for each in (node, f"{name}-worker"):
            assert f"docker.io/{own}" in crictl(fleet, each)
        fleet.delete(name)
        fleet.settles(())
    finally:
        fleet.docker("rmi", own)


class Relay:
    """A socket of the engine that can be closed, as when the engine is killed, and opened again."""

    def __init__(self, path: Path, target: str) -> None:
        self._path, self._target = path, target
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    @property
    def host(self) -> str:
        return f"unix://{self._path}"

    def open(self) -> None:
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result()

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()

    async def _open(self) -> None:
        self._path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._serve, str(self._path))

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # what the tasks have closed is closed in the next turn
        self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        engine_reader, engine_writer = await asyncio.open_unix_connection(self._target)
        try:
            with suppress(OSError, asyncio.CancelledError):
                await asyncio.gather(_pass_on(reader, engine_writer), _pass_on(engine_reader, writer))
        finally:
            self._tasks.discard(task)
            writer.close()
            engine_writer.close()

    def end(self) -> None:
        self.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(1 << 16):
        writer.write(chunk)
        await writer.drain()
    with suppress(OSError):
        writer.write_eof()


@pytest.fixture
def relay(engine: Engine, tmp_path: Path) -> Iterator[Relay]:
    relay = Relay(tmp_path / "e.sock", urlsplit(engine.host).path or "/var/run/docker.sock")
    relay.open()
    yield relay
    relay.end()


def test_an_engine_that_goes_away_halfway_and_comes_back(relay: Relay, start: Start, engine: Engine) -> None:
    """Its containers go on; nothing reaches it meanwhile."""
    fleet = start("away", DOCKER_HOST=relay.host)
    name = fleet.create()
    says(fleet, name, "InProgress", "ControlPlaneStarted")
    relay.close()
    obj = says(fleet, name, "EngineUnavailable")
    assert "cluster" in obj["status"]
    assert engine.docker("ps", "--quiet", "--filter", f"name={name}-control-plane")
    relay.open()
    fleet.settles({name})
    fleet.answers_for(name)
    assert "Removing" not in str(fleet.get(name)["status"]["cluster"])
    fleet.delete(name)
    fleet.settles(())
    assert fleet.containers() == []


@contextmanager
def small_disk(directory: Path, kilobytes: int) -> Iterator[Path]:
    directory.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "none", str(directory)], check=True)
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


def fill(file: Path) -> None:
    with suppress(OSError), file.open("wb", buffering=0) as opened:
        while True:
            opened.write(b"x" * 4096)


@pytest.mark.skipif(os.geteuid() != 0, reason="root (to mount a small disk)")
def test_a_temporary_directory_that_is_full(start: Start, tmp_path: Path) -> None:
    with small_disk(tmp_path / "full", 64) as full:
        fleet = start("space", SHOAL_TEST_TMPDIR=str(full))
        # Python takes another directory if this one is full when it is needed for the first time.
        first = fleet.create()
        fleet.settles({first})
        fill(full / "ballast")
        second = fleet.create()
        obj = says(fleet, second, "NoSpaceLeft")
        assert "No space left on device" in obj["status"]["failureMessage"]
        assert len(fleet.containers()) == 1
        (full / "ballast").unlink()
        fleet.settles({first, second})
        # With a full disk they can be deleted, which makes room.
        fill(full / "ballast")
        fleet.delete(first)
        fleet.delete(second)
        fleet.settles(())
        assert fleet.containers() == []
        assert [path.name for path in full.iterdir()] == ["ballast"]
        fleet.end()


def test_two_shoals_on_one_engine(start: Start) -> None:
    first, second = start("one"), start("two")
    mine = first.create()
    says(first, mine, "InProgress", "NodesPrepared")
    second.create_named(mine)
    obj = says(second, mine, "ForeignCluster")
    assert "exists and was not created for this KINDCluster" in condition(obj)["message"]
    theirs = second.create()
    second.until(lambda: second.ready() == {theirs}, lambda: str(second.failures()))
    first.settles({mine})
    second.delete(mine)
    second.until(lambda: set(second.objects()) == {theirs}, lambda: str(second.objects()))
    first.kill()
    second.delete(theirs)
    second.settles(())
    first.start()
    first.settles({mine})
    first.answers_for(mine)
    first.delete(mine)
    first.settles(())
