"""Cluster API's own programs read what Shoal writes: its Go types (peers/capi), and clusterctl."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.capi.management_cluster import HEALTH_CHECK, ONE_FILE, Management, condition
from tests.real.building import built
from tests.serving import HANG, Server

Object = dict[str, Any]

VERSIONED = ONE_FILE.replace(
    "    spec:\n      clusterName: east\n", "    spec:\n      clusterName: east\n      version: v1.35.1\n"
)


@pytest.fixture(scope="module")
def management(server: Server) -> Iterator[Management]:
    """With a Cluster of three Machines and a MachineHealthCheck."""
    management = Management(server)
    management.apply(VERSIONED + HEALTH_CHECK)
    management.settled(3)
    management.eventually(lambda: is_available(management))
    yield management
    management.delete("clusters", "east")
    management.root.close()


def is_available(management: Management) -> bool:
    checked = management.get("machinehealthchecks", "east").get("status") or {}
    available = condition(management.get("clusters", "east"), "Available") or {}
    return available.get("status") == "True" and checked.get("currentHealthy") == 3


def run(name: str, *args: str) -> str:
    path = built(name)
    if path is None:
        pytest.skip(f"{name} (not built)")
    done = subprocess.run([str(path), *args], text=True, capture_output=True, timeout=HANG, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def decoded(management: Management, tmp_path: Path) -> Object:
    config = management.root.kubeconfig(tmp_path / "kubeconfig")
    report: Object = json.loads(run("capi", f"--kubeconfig={config}"))
    return report


def test_upstreams_types_know_every_field(management: Management, tmp_path: Path) -> None:
    """Strictly into Go and back, nothing is lost and nothing is new."""
    report = decoded(management, tmp_path)
    assert report["differences"] == []
    assert all(report["objects"][kind] >= 1 for kind in report["objects"])
    assert report["objects"].keys() == {
        "clusters", "machines", "machinesets", "machinedeployments", "machinehealthchecks",
    }  # fmt: skip
    assert report["objects"]["machines"] >= 3


def test_upstreams_types_know_machines_on_their_way_out(management: Management, tmp_path: Path) -> None:
    """Held by a hook, unhealthy by hand, with what deletion writes."""
    names = sorted(machine["metadata"]["name"] for machine in management.all("machines"))
    hook = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/test"
    marks = {hook: "", "cluster.x-k8s.io/remediate-machine": ""}
    management.patch("machines", names[0], {"metadata": {"annotations": marks}})

    def held() -> bool:
        found = condition(management.get("machines", names[0]), "Deleting") or {}
        return found.get("reason") == "WaitingForPreTerminateHook"

    management.eventually(held)
    status = management.get("machines", names[0])["status"]
    assert status["deletion"].keys() == {"nodeDrainStartTime", "waitForPreTerminateHookStartTime"}
    report = decoded(management, tmp_path)
    management.patch("machines", names[0], {"metadata": {"annotations": {hook: None}}})
    assert report["differences"] == []
    management.settled(3)
    management.eventually(lambda: is_available(management))


def describe(management: Management, tmp_path: Path, *flags: str) -> list[str]:
    config = management.root.kubeconfig(tmp_path / "kubeconfig")
    where = [f"--kubeconfig={config}", "--namespace", management.namespace]
    said = run("clusterctl", "describe", "cluster", "east", *where, *flags)
    return [line.rstrip() for line in said.splitlines()]


def columns(line: str) -> list[str]:
    """Without the branches of the tree, and without the age."""
    words = line.lstrip("│├└─ ").split()
    return [word for word in words if not (word[:-1].isdigit() and word[-1] in "smh")]


def test_clusterctl_describes_a_cluster(management: Management, tmp_path: Path) -> None:
    where = management.namespace
    title, cluster, infrastructure, workers, deployment, machines = describe(management, tmp_path)
    assert title.split()[:4] == ["NAME", "REPLICAS", "AVAILABLE", "READY"]
    assert columns(cluster) == ["Cluster", f"{where}/east", "3/3", "3", "3", "3", "True", "Available"]
    assert columns(infrastructure) == ["EmbeddedCluster", f"{where}/east", "True", "Ready"]
    assert columns(workers) == ["Workers"]
    name = f"{where}/east-default,"
    assert columns(deployment) == ["MachineDeployment", name, "v1.35.1", "3/3", "3", "3", "3", "True", "Available"]
    assert columns(machines)[:8] == ["3", "Machines...", "3", "3", "3", "True", "Ready", "See"]


def test_clusterctl_describes_every_condition(management: Management, tmp_path: Path) -> None:
    flags = ("--show-conditions", "all", "--grouping=false", "--echo", "--show-machinesets", "--show-templates")
    lines = [columns(line) for line in describe(management, tmp_path, *flags)[1:]]
    where = management.namespace
    objects = [line[0] for line in lines if len(line) > 1 and line[1].startswith(f"{where}/")]
    machines = ["Machine", "EmbeddedMachine"] * 3
    owners = ["Cluster", "EmbeddedCluster", "MachineDeployment", "EmbeddedMachineTemplate", "MachineSet"]
    assert objects == owners + machines
    told = {line[0]: line[1] for line in lines if len(line) == 3}
    assert {type_ for type_, status in told.items() if status == "True"} == {
        "Available", "RemoteConnectionProbe", "InfrastructureReady", "ControlPlaneInitialized", "ControlPlaneAvailable",
        "WorkersAvailable", "ControlPlaneMachinesReady", "ControlPlaneMachinesUpToDate", "WorkerMachinesReady",
        "WorkerMachinesUpToDate", "MachinesReady", "MachinesUpToDate", "Ready", "BootstrapConfigReady", "NodeReady",
        "NodeHealthy", "UpToDate", "HealthCheckSucceeded",
    }  # fmt: skip
    assert {type_ for type_, status in told.items() if status == "False"} == {
        "RollingOut", "ScalingUp", "ScalingDown", "Remediating", "Deleting", "Paused", "Updating",
    }  # fmt: skip
