"""`shoal worker` as a process: joins, hosts, is killed and comes back, exits cleanly; and its usage errors."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from shoal.cli.worker import command as worker
from shoal.client.kubeconfig import KubeconfigError
from tests.faults.processes import command
from tests.fleet.fleets import managed, phase
from tests.serving import HANG, Cluster, Server, running_server

Object = dict[str, Any]

GROUP = "/apis/infrastructure.cluster.x-k8s.io/v1alpha1"
CLUSTERS = f"{GROUP}/namespaces/default/managedclusters"
WORKERS = f"{GROUP}/namespaces/shoal-system/workers"


@pytest.fixture
def hub() -> Iterator[Cluster]:
    with running_server() as server:
        root = Cluster(server, "root")
        yield root
        root.close()


def start(hub: Cluster, directory: Path, name: str = "w1") -> subprocess.Popen[str]:
    server: Server = hub.server
    file = Cluster(server, "root").kubeconfig(directory / "kubeconfig")
    flags = ["--hub-kubeconfig", str(file), "--name", name, "--capacity", "3", "--data-dir", str(directory / name)]
    process = subprocess.Popen(command("worker", *flags), stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("the worker's own API is at https://127.0.0.1:"):
            return process
    raise AssertionError(f"shoal worker ended with {process.wait()} before it was ready")


def end(process: subprocess.Popen[str], number: signal.Signals) -> int:
    process.send_signal(number)
    process.communicate(timeout=HANG)
    return process.returncode


def test_a_worker_process(hub: Cluster, tmp_path: Path) -> None:
    process = start(hub, tmp_path)
    try:
        hub.eventually(
            lambda: hub.get(f"{WORKERS}/w1").status == 200 and phase(hub.get(f"{WORKERS}/w1").ok()) == "Running"
        )
        assert hub.get(f"{WORKERS}/w1").ok()["spec"]["version"].startswith("v1.")
        hub.post(CLUSTERS, managed("east", nodes=1)).ok()
        hub.eventually(lambda: phase(hub.get(f"{CLUSTERS}/east").ok()) == "Running")
        secret = hub.get("/api/v1/namespaces/default/secrets/east-kubeconfig").ok()
        assert set(secret["data"]) == {"value"}
        end(process, signal.SIGKILL)
        hub.patch(f"{CLUSTERS}/east", {"spec": {"nodes": 2}}).ok()
        process = start(hub, tmp_path)
        hub.eventually(lambda: hub.get(f"{CLUSTERS}/east").ok()["status"].get("nodes") == 2)
        end(process, signal.SIGKILL)
        hub.delete(f"{CLUSTERS}/east").ok()
        process = start(hub, tmp_path)
        hub.eventually(lambda: hub.get(f"{CLUSTERS}/east").status == 404)
        assert end(process, signal.SIGTERM) == 0
        assert hub.get(f"{WORKERS}/w1").status == 200, "a worker that stops is not gone"
    finally:
        if process.poll() is None:
            end(process, signal.SIGKILL)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--name", "a.b"], "--name a.b: must not contain dots"),
        (["--name", "x" * 57], "at most 56 characters"),
        (["--capacity", "-1"], "Invalid value for '--capacity'"),
        (["--listen", "nowhere"], "--listen nowhere: give an address and a port"),
    ],
)
def test_usage_errors(tmp_path: Path, flags: list[str], said: str) -> None:
    (tmp_path / "kubeconfig").write_text("{}")
    file = ["--hub-kubeconfig", str(tmp_path / "kubeconfig")]
    run = CliRunner().invoke(worker, [*file, *flags])
    assert run.exit_code == 2
    assert said in run.output


def test_a_file_that_is_no_kubeconfig(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text("{}")
    flags = ["--hub-kubeconfig", str(file), "--name", "w", "--data-dir", str(tmp_path / "w")]
    run = CliRunner().invoke(worker, flags)
    assert isinstance(run.exception, KubeconfigError)
    assert str(run.exception) == f"{file} has no current context"
    assert not (tmp_path / "w").exists()
