"""A `shoal up` process is killed at each step of kind, with the fake kind command: afterwards what is declared exists
once, and nothing else is left.
"""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal.kinds.clusterapi import kindcluster
from tests.capi.kind.fake_kind import STEPS, Standin
from tests.capi.kind.kind_environment import kind_cluster
from tests.capi.kind.test_crashes import commands_running
from tests.faults.processes import Refused, Up

Object = dict[str, Any]

PATH = f"/apis/{kindcluster.API_VERSION}/namespaces/default/kindclusters"
SECRETS = "/api/v1/namespaces/default/secrets"
NODES = [{"role": "control-plane"}, {"role": "worker"}]
CREATION = [f"hold-step-{number}" for number in range(1, len(STEPS) + 1)]
SOME = ("hold-step-1", "hold-step-4")


class Killable:
    """A data directory, a fake kind, and the process that has both."""

    def __init__(self, directory: Path) -> None:
        self.standin, self._data, self.temporary = Standin(directory / "kind"), directory / "data", directory / "tmp"
        self.temporary.mkdir()
        self._environment = os.environ | self.standin.environment | {"TMPDIR": str(self.temporary)}
        self._environment["PATH"] = f"{self.standin.path}:{os.environ['PATH']}"
        self.start()

    def start(self) -> None:
        self.up = Up(self._data, environ=self._environment)
        self.client = self.up.client()

    def restart(self) -> None:
        self.up.close()
        self.start()

    def create(self) -> None:
        obj = kind_cluster("a", nodes=NODES, images=["app:1"])
        self.client.request("POST", PATH, obj)

    def status(self) -> Object:
        found: Object = self.client.request("GET", f"{PATH}/a").get("status") or {}
        return found

    def is_gone(self) -> bool:
        try:
            self.status()
        except Refused as error:
            return error.status == 404
        return False

    def until(self, look: Callable[[], bool]) -> None:
        for _ in range(6000):
            if look():
                return
            time.sleep(0.01)
        raise AssertionError(f"it does not come: {self.standin.calls()[-5:]}")

    def is_whole(self) -> bool:
        """Ready, with its images."""
        conditions = {each["type"]: each["status"] for each in self.status().get("conditions") or ()}
        return (conditions.get("Ready"), conditions.get("ImagesLoaded")) == ("True", "True")

    def is_held(self, file: str) -> bool:
        """kind waits there."""
        verb = {"hold-load": "load docker-image a", "hold-delete": "delete cluster a"}.get(file, "create cluster a")
        if self.standin.calls()[-1:] != [verb]:
            return False
        if not file.startswith("hold-step-"):
            return True
        return STEPS[int(file.rpartition("-")[2]) - 1].split(" 🕹")[0] in self.status().get("progress", "")

    def assert_nothing_left(self) -> None:
        assert list(self.temporary.iterdir()) == []
        assert not any(str(self.standin.program).encode() in command for command in commands_running())


@pytest.fixture
def killable(tmp_path: Path) -> Iterator[Killable]:
    killable = Killable(tmp_path)
    killable.standin.image("app:1", "sha256:1")
    yield killable
    killable.up.close()


def held(file: str) -> object:
    return file if file in (*SOME, "hold-delete") else pytest.param(file, marks=pytest.mark.soak)


@pytest.mark.parametrize("file", [held(file) for file in (*CREATION, "hold-create", "hold-load")])
def test_killed_at_a_step_of_the_creation(killable: Killable, file: str) -> None:
    standin = killable.standin
    standin.write(file)
    killable.create()
    killable.until(lambda: killable.is_held(file))
    killable.restart()
    standin.unlink(file)
    killable.until(killable.is_whole)
    assert standin.clusters() == ["a"]
    assert standin.is_complete("a")
    assert standin.loaded("a") == ["app:1=sha256:1"]
    data = killable.client.request("GET", f"{SECRETS}/a-config")["data"]
    assert base64.b64decode(data["config"]).decode() == standin.kubeconfig("a")
    killable.assert_nothing_left()


@pytest.mark.parametrize("file", [held(file) for file in (*CREATION, "hold-create", "hold-load")])
def test_killed_at_a_step_and_deleted_meanwhile(killable: Killable, file: str) -> None:
    """The object is deleted before the creation goes on: nothing of it stays."""
    standin = killable.standin
    standin.write(file)
    killable.create()
    killable.until(lambda: killable.is_held(file))
    killable.client.request("DELETE", f"{PATH}/a")
    killable.restart()
    standin.unlink(file)
    killable.until(killable.is_gone)
    assert standin.clusters() == []
    names = [secret["metadata"]["name"] for secret in killable.client.request("GET", SECRETS)["items"]]
    assert "a-config" not in names
    killable.assert_nothing_left()


@pytest.mark.parametrize("file", [held("hold-delete")])
def test_killed_while_kind_deletes(killable: Killable, file: str) -> None:
    standin = killable.standin
    killable.create()
    killable.until(killable.is_whole)
    standin.write(file)
    killable.client.request("DELETE", f"{PATH}/a")
    killable.until(lambda: killable.is_held(file))
    killable.restart()
    standin.unlink(file)
    killable.until(killable.is_gone)
    assert standin.clusters() == []
    killable.assert_nothing_left()
