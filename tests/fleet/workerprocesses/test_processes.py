"""Declared Workers as real processes: they join, host, are killed, and are removed when they host nothing."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.assemble.server.api_server import worker_user
from shoal.kinds.fleet import infrav1 as names
from tests.faults.processes import Client, Refused, Up
from tests.fleet.fleets import condition, managed, phase
from tests.serving import HANG, Cluster, Server, config_map

Object = dict[str, Any]

GROUP = "/apis/infrastructure.cluster.x-k8s.io/v1alpha1"
CLUSTERS = f"{GROUP}/namespaces/default/managedclusters"
WORKERS = f"{GROUP}/namespaces/shoal-system/workers"
SECRETS = "/api/v1/namespaces/kube-system/secrets"
SETTINGS = "/api/v1/namespaces/shoal-system/configmaps"


def worker(name: str, **spec: Any) -> Object:
    return {"apiVersion": names.API_VERSION, "kind": "Worker", "metadata": {"name": name}, "spec": spec}


def is_locked(directory: Path) -> bool:
    """Whether a process is on that data. Not to be asked while one is starting: it would find the lock taken."""
    try:
        lock = os.open(directory / "lock", os.O_RDWR)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def pid_of(found: Object, directory: Path) -> int:
    """Of the process that runs on that data, as its Worker says; 0: none."""
    said = condition(found, "Supervised")
    if said.get("status") != "True":
        return 0
    pid = int(said["message"].split()[1])
    assert said["message"] == f"process {pid} on {directory}"
    return pid


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("hub")
    yield directory
    assert not [each for each in (directory / "workers").iterdir() if is_locked(each)], "a process is left"


@pytest.fixture(scope="module")
def hub(place: Path) -> Iterator[Cluster]:
    server = Server(place, worker_processes=True)
    root = Cluster(server, "root")
    try:
        root.eventually(lambda: root.get("/api/v1/namespaces/shoal-system").status == 200)
        yield root
    finally:
        root.close()
        server.stop()


@pytest.mark.parametrize("annotations", [{}, {"shoal.dev/store": ""}, {"shoal.dev/store": "s"}])
def test_a_worker_makes_the_hub_start_nothing(hub: Cluster, place: Path, annotations: dict[str, str]) -> None:
    """Only people declare Workers that the hub runs."""
    hub.server.shoal.server.core.authenticator.add_static_token("token of crafty", worker_user("crafty"))
    for spec in ({}, {"infrastructure": "process"}, {"infrastructure": "kind"}):
        wanted = worker("crafty", **spec)
        wanted["metadata"]["annotations"] = annotations
        answer = hub.request("POST", WORKERS, wanted, token="token of crafty")
        assert answer.status == 403, answer.body
    assert hub.get(f"{WORKERS}/crafty").status == 404
    assert not (place / "workers" / "crafty").exists()


def test_a_declared_worker(hub: Cluster, place: Path) -> None:
    hub.post(WORKERS, worker("one", capacity=5, location="north")).ok()
    hub.post(CLUSTERS, managed("east", nodes=1, location="north")).ok()
    hub.eventually(lambda: phase(hub.get(f"{CLUSTERS}/east").ok()) == "Running")
    data = place / "workers" / "one"
    first = hub.eventually(lambda: pid_of(hub.get(f"{WORKERS}/one").ok(), data))
    found = hub.get(f"{WORKERS}/one").ok()
    assert int((data / "lock").read_text()) == first
    assert (found["spec"]["capacity"], found["spec"]["location"]) == (5, "north")
    assert found["spec"]["infrastructure"] == "process"
    check_identity(hub, data, first)

    os.kill(first, signal.SIGKILL)
    hub.eventually(lambda: pid_of(hub.get(f"{WORKERS}/one").ok(), data) not in (0, first))
    hub.patch(f"{WORKERS}/one", {"spec": {"capacity": 7}}).ok()
    hub.patch(f"{CLUSTERS}/east", {"spec": {"nodes": 2}}).ok()
    hub.eventually(lambda: hub.get(f"{CLUSTERS}/east").ok()["status"].get("nodes") == 2)
    found = hub.get(f"{WORKERS}/one").ok()
    assert found["spec"]["capacity"] == 7, "its Worker says what it is"
    refused = hub.patch(f"{WORKERS}/one", {"spec": {"infrastructure": "kind"}})
    assert refused.status == 422
    assert "the hub runs this worker as a process: delete the Worker and create it again" in refused.json["message"]
    error = found["status"]["errors"][0]
    assert (error["reason"], error["message"][:18]) == ("ProcessExited", "killed by signal 9")

    hub.delete(f"{WORKERS}/one").ok()
    said = hub.eventually(lambda: condition(hub.get(f"{WORKERS}/one").ok(), "Deleting"))
    assert said["reason"] == "HostsManagedClusters"
    assert is_locked(data)
    hub.delete(f"{CLUSTERS}/east").ok()
    hub.eventually(lambda: hub.get(f"{WORKERS}/one").status == 404)
    assert not data.exists()


def check_identity(hub: Cluster, data: Path, pid: int) -> None:
    """It has joined as any worker does: with a token for its name that is used up and was in no list of processes."""
    own = yaml.safe_load((data / "hub.kubeconfig").read_text())
    assert own["users"][0]["name"] == "system:worker:one"
    tokens = [each for each in hub.get(SECRETS).ok()["items"] if each["type"] == "bootstrap.kubernetes.io/token"]
    (marks,) = (each["metadata"]["annotations"] for each in tokens if each["metadata"]["annotations"])
    assert (marks["shoal.dev/worker"], marks["shoal.dev/used-by"]) == ("one", "one")
    arguments = Path(f"/proc/{pid}/cmdline")
    if arguments.exists():
        assert b"--token" not in arguments.read_bytes()


def test_auto_workers_come_and_go(hub: Cluster, place: Path) -> None:
    hub.post(SETTINGS, config_map("auto-workers", {"max": "1", "capacity": "2"})).ok()
    hub.post(CLUSTERS, managed("west", location="west")).ok()
    hub.eventually(lambda: phase(hub.get(f"{CLUSTERS}/west").ok()) == "Running")
    name = hub.get(f"{CLUSTERS}/west").ok()["status"]["assignedWorker"]
    found = hub.get(f"{WORKERS}/{name}").ok()
    assert (name[:5], found["spec"]["location"], found["spec"]["capacity"]) == ("auto-", "west", 2)
    hub.patch(f"{SETTINGS}/auto-workers", {"data": {"emptyFor": "1s"}}).ok()
    hub.delete(f"{CLUSTERS}/west").ok()
    hub.eventually(lambda: hub.get(f"{WORKERS}/{name}").status == 404)
    assert not (place / "workers" / name).exists()
    hub.delete(f"{SETTINGS}/auto-workers").ok()


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"capacity": -1}, "spec.capacity"),
        ({"infrastructure": "balloon"}, "spec.infrastructure"),
        ({"provides": ["balloons"]}, "spec.provides"),
        ({"allocatable": {"cpu": "-1"}}, "spec.allocatable"),
    ],
)
def test_a_worker_that_cannot_be(hub: Cluster, spec: Object, field: str) -> None:
    refused = hub.post(WORKERS, worker("bad", **spec))
    assert refused.status == 422
    assert field in refused.json["message"]


def test_a_name_that_cannot_be(hub: Cluster) -> None:
    assert hub.post(WORKERS, worker("a.b")).status == 422
    assert hub.post(WORKERS, worker("x" * 57)).status == 422


def running(client: Client, name: str) -> bool:
    return phase(client.request("GET", f"{CLUSTERS}/{name}")) == "Running"


def test_a_hub_is_killed_and_started_again(tmp_path: Path) -> None:
    data = tmp_path / "workers" / "one"
    up = Up(tmp_path, "--workers", "0")
    try:
        client = up.client()
        eventually(lambda: is_there(client, "/api/v1/namespaces/shoal-system"))
        client.request("POST", WORKERS, worker("one"))
        client.request("POST", CLUSTERS, managed("east"))
        eventually(lambda: running(client, "east"))
        eventually(lambda: pid_of(client.request("GET", f"{WORKERS}/one"), data))
        before = client.request("GET", f"{WORKERS}/one")
        first = int((data / "lock").read_text())
        up.kill()
        eventually(lambda: not is_locked(data))

        up.close()
        up = Up(tmp_path, "--workers", "0")
        client = up.client()
        eventually(lambda: pid_of(client.request("GET", f"{WORKERS}/one"), data) not in (0, first))
        client.request("POST", CLUSTERS, managed("west"))
        eventually(lambda: running(client, "west"))
        assert running(client, "east"), "what it hosted is there"
        after = client.request("GET", f"{WORKERS}/one")
        for kept in (names.STORE_ANNOTATION, names.SUPERVISOR_ANNOTATION):
            assert after["metadata"]["annotations"][kept] == before["metadata"]["annotations"][kept]
        code, _ = up.terminate()
        assert code == 0
        assert not is_locked(data), "it ends with its hub"
        assert data.exists()
    finally:
        up.close()


def eventually(look: Callable[[], object]) -> None:
    end = time.monotonic() + HANG
    while not look():
        assert time.monotonic() < end
        time.sleep(0.02)


def is_there(client: Client, path: str) -> bool:
    try:
        client.request("GET", path)
    except Refused:
        return False
    return True
