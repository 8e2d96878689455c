"""Each loop in turn outside a hub, in two `shoal controllers` processes, one of which is killed in the middle."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.faults.processes import Up, command
from tests.real.commands import shoal, until
from tests.real.hubs import KubectlAt

EAST = '{"apiVersion":"infrastructure.cluster.x-k8s.io/v1alpha1","kind":"ManagedCluster","metadata":{"name":"%s"}}'
WORKER_READY = "the worker's own API is at "
EXAMPLE = Path(__file__).parents[2] / "examples" / "cluster-api.yaml"


def holder(kubectl: KubectlAt, loop: str) -> str:
    lease = f"shoal-controllers-{loop}"
    return kubectl("get", "lease", lease, "-n", "kube-system", "-o", "jsonpath={.spec.holderIdentity}")


def create(kubectl: KubectlAt, directory: Path, text: str) -> None:
    file = directory / "objects.yaml"
    file.write_text(text)
    kubectl("apply", "-f", str(file))


def ready_replicas(kubectl: KubectlAt) -> str:
    return kubectl("get", "deployments", "-o", "jsonpath={.items[?(@.metadata.name=='web')].status.readyReplicas}")


def story(kubectl: KubectlAt, directory: Path, name: str, replicas: int) -> None:
    """A ManagedCluster with a share of the Deployment, and a Cluster API Cluster."""
    create(kubectl, directory, EAST % name)
    kubectl("wait", f"clusters.workload.kcp.dev/{name}", "--for=create", "--timeout=120s")
    kubectl("wait", f"clusters.workload.kcp.dev/{name}", "--for=condition=Ready", "--timeout=120s")
    until(lambda: "deployments" in kubectl("api-resources", "--api-group=apps", "-o", "name"))
    if not kubectl("get", "deployments", "-o", "name"):
        kubectl("create", "deployment", "web", "--image=nginx")
    kubectl("scale", "deployment", "web", f"--replicas={replicas}")
    until(lambda: ready_replicas(kubectl) == str(replicas))
    machines = f"{name}-machines"
    create(kubectl, directory, EXAMPLE.read_text().replace("east", machines))
    mine = ("get", "machines", "-l", f"cluster.x-k8s.io/cluster-name={machines}")
    until(lambda: kubectl(*mine, "-o", "jsonpath={.items[*].status.phase}") == "Running Running Running")


@pytest.mark.parametrize("loop", ["fleet", "importer", "syncer", "splitter", "capi"])
def test_the_story_goes_on_when_the_process_of_a_loop_is_killed(tmp_path: Path, loop: str) -> None:
    hub = Up(tmp_path / "hub", "--no-loops", loop, verb="hub")
    worker: Up | None = None
    try:
        kubectl = KubectlAt(tmp_path / "hub" / "kubeconfig", tmp_path / "home")
        kubeconfig = tmp_path / "loop.kubeconfig"
        printed = subprocess.run(
            command("kubeconfig", "--loops", loop, "--data-dir", str(tmp_path / "hub")), capture_output=True, check=True
        )
        kubeconfig.write_bytes(printed.stdout)
        flags = ("--kubeconfig", str(kubeconfig), "--loops", loop)
        with shoal("controllers", *flags) as first:
            until(lambda: holder(kubectl, loop))
            before = holder(kubectl, loop)
            with shoal("controllers", *flags):
                join = ("--hub-kubeconfig", str(tmp_path / "hub" / "kubeconfig"), "--name", "w1")
                worker = Up(tmp_path / "w1", *join, verb="worker", ready=WORKER_READY)
                story(kubectl, tmp_path, "east", 4)
                first.kill()
                story(kubectl, tmp_path, "west", 6)
                until(lambda: holder(kubectl, loop) not in ("", before))
    finally:
        if worker is not None:
            worker.close()
        hub.close()
