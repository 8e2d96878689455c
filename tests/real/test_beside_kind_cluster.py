"""A hub on this machine and a kind cluster of real containers: a worker bundle in it, and a syncer of the chart."""

from __future__ import annotations

import base64
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.docs.pages import typed_block
from tests.faults.processes import Up, command
from tests.real.containers.control_plane import VERSION
from tests.real.containers.shoal_image import REPOSITORY
from tests.real.containers.workload_images import BUSYBOX
from tests.real.hubs import KubectlAt
from tests.real.kind_machine import SMALL, KindCluster, Object, Release, until

pytestmark = pytest.mark.containers

SYSTEM = ("-n", "shoal-system")
IMAGE, MISSING = (f"{REPOSITORY}:{tag}" for tag in ("new", "missing"))
OTHER = "ghcr.io/shoal/shoal:0.1.0"
"""As docs/worker-bundle.md names the image that a Worker goes back to."""
DEPLOYMENT = "deployment/shoal-worker-far"
LOST, BACK = "the hub does not answer, retrying", "the hub answers again after "
"""What a syncer says."""
UNREGISTERED, REGISTERED = " cannot be reached: ", "registered again after "
"""What a worker says."""


class Hub:
    """A process on this machine, at an address that containers reach."""

    def __init__(self, cluster: KindCluster, directory: Path) -> None:
        self._flags = ("--listen", "0.0.0.0:0", "--advertise-address", cluster.gateway, "--worker-image", IMAGE)
        self._directory = directory
        self.start()
        self.kubectl = KubectlAt(self.process.data / "kubeconfig", directory / "home")

    def start(self) -> None:
        self.process = Up(self._directory / "hub", *self._flags, verb="hub")

    def apply(self, *objects: Object) -> None:
        file = self._directory / "applied.yaml"
        file.write_text(yaml.safe_dump_all(objects))
        self.kubectl("apply", "-f", str(file))

    def worker(self) -> Object:
        found: Object = json.loads(self.kubectl("get", "worker", "far", *SYSTEM, "-o", "json"))
        return found

    def condition(self, type_: str) -> Object:
        conditions = self.worker().get("status", {}).get("conditions", ())
        return next((each for each in conditions if each["type"] == type_), {})

    def is_applied(self, image: str) -> bool:
        bundle = self.worker()["status"]["bundle"]
        return (self.condition("BundleApplied")["status"], bundle["image"]) == ("True", image)

    def set_image(self, image: str | None) -> None:
        patch = json.dumps({"spec": {"image": image}})
        self.kubectl("patch", "worker", "far", *SYSTEM, "--type", "merge", "-p", patch)

    def runs(self) -> bool:
        return self.kubectl("get", "managedcluster", "east", "-o", "jsonpath={.status.phase}") == "Running"


@pytest.fixture
def hub(kind_cluster: KindCluster, tmp_path: Path) -> Iterator[Hub]:
    found = Hub(kind_cluster, tmp_path)
    yield found
    found.process.close()


def running_image(cluster: KindCluster) -> str:
    """Of the pod that is ready; empty without one."""
    found = json.loads(cluster.kubectl("get", "pods", "-l", "shoal.dev/worker=far", *SYSTEM, "-o", "json"))["items"]
    ready = [
        pod
        for pod in found
        if any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", ()))
        and "deletionTimestamp" not in pod["metadata"]
    ]
    return str(ready[0]["spec"]["containers"][0]["image"]) if len(found) == len(ready) == 1 else ""


def test_a_bundle_runs_and_goes_back_to_the_image_before(kind_cluster: KindCluster, hub: Hub) -> None:
    kind_cluster.tag(IMAGE, OTHER)
    config = base64.b64encode(kind_cluster.kubeconfig.read_bytes()).decode()
    hub.apply(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "far"}, "data": {"value": config}},
        {
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1",
            "kind": "Worker",
            "metadata": {"name": "far", "namespace": "shoal-system"},
            "spec": {"infrastructure": "kind", "kubeconfigSecretRef": {"namespace": "default", "name": "far"}},
        },
        {
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1",
            "kind": "ManagedCluster",
            "metadata": {"name": "east", "namespace": "default"},
            "spec": {"version": VERSION},
        },
    )
    until(lambda: hub.is_applied(IMAGE) and running_image(kind_cluster) == IMAGE)
    until(lambda: hub.condition("Ready")["status"] == "True" and hub.runs())
    until(lambda: "token" not in joining_user(kind_cluster))
    uid = hub.kubectl("get", "managedcluster", "east", "-o", "jsonpath={.metadata.uid}")

    # An image of its own, by the object.
    hub.set_image(OTHER)
    until(lambda: hub.is_applied(OTHER) and running_image(kind_cluster) == OTHER)
    until(hub.runs)
    assert hub.worker()["status"]["bundle"]["previousImage"] == IMAGE

    # One that does not come up, and back as docs/worker-bundle.md has it.
    hub.set_image(MISSING)
    until(lambda: hub.condition("BundleApplied")["reason"] == "WorkerNotAvailable")
    until(lambda: running_image(kind_cluster) == "" and hub.worker()["status"]["bundle"]["image"] == MISSING)
    said = hub.kubectl.type(typed_block("docs/worker-bundle.md", "previousImage", "real/test_beside_kind_cluster.py"))
    assert said == f"{OTHER}worker.infrastructure.cluster.x-k8s.io/far patched\n"
    until(lambda: hub.is_applied(OTHER) and running_image(kind_cluster) == OTHER)
    hub.set_image(None)
    until(lambda: hub.is_applied(IMAGE) and running_image(kind_cluster) == IMAGE)
    until(lambda: hub.runs() and hub.condition("Ready")["status"] == "True")
    assert hub.kubectl("get", "managedcluster", "east", "-o", "jsonpath={.metadata.uid}") == uid

    check_words_about_a_lost_hub(hub, lambda: kind_cluster.kubectl("logs", DEPLOYMENT, *SYSTEM))
    until(lambda: hub.condition("Ready")["status"] == "True")

    hub.kubectl("delete", "managedcluster", "east", "--wait=false")
    until(lambda: hub.kubectl("get", "managedclusters", "-o", "name") == "")
    hub.kubectl("delete", "worker", "far", "--wait=false", *SYSTEM)
    until(lambda: hub.kubectl("get", "workers", *SYSTEM, "-o", "name") == "")
    assert "shoal-system" not in kind_cluster.kubectl("get", "namespaces", "-o", "name")


def joining_user(cluster: KindCluster) -> Object:
    secret = json.loads(cluster.kubectl("get", "secret", "shoal-worker-far", *SYSTEM, "-o", "json"))
    config = yaml.safe_load(base64.b64decode(secret["data"]["kubeconfig"]))
    user: Object = config["users"][0]["user"]
    return user


def check_words_about_a_lost_hub(hub: Hub, logs: Callable[[], str]) -> None:
    """A line when it is lost and one when it is back, however often it was tried meanwhile."""
    before = logs().count(REGISTERED)
    hub.process.terminate()
    until(lambda: UNREGISTERED in logs().rpartition(REGISTERED)[2])
    time.sleep(10)
    hub.start()
    until(lambda: logs().count(REGISTERED) == before + 1)
    said = [line for line in logs().splitlines() if UNREGISTERED in line or REGISTERED in line]
    assert len(said) <= 2 * (before + 1) + 2, said


def test_a_syncer_alone(kind_cluster: KindCluster, hub: Hub, tmp_path: Path) -> None:
    release = Release(kind_cluster, "helm4", "test-syncer")
    try:
        (tmp_path / "kubeconfig").write_text(hub_kubeconfig(hub))
        kind_cluster.kubectl("create", "namespace", release.namespace)
        release.kubectl("create", "secret", "generic", "shoal-syncer-hub", f"--from-file={tmp_path / 'kubeconfig'}")
        syncer = {"enabled": True, "cluster": "far", "requests": SMALL["requests"]}
        release.install({"hub": {"enabled": False}, "syncer": syncer})
        hub.apply(deployment())
        until(lambda: release_is_up(hub))
        deployed = kind_cluster.kubectl("get", "deployment", "web", "-o", "jsonpath={.status.availableReplicas}")
        assert deployed == "1"
        policy = release.get("networkpolicy", "shoal-syncer")
        assert policy["spec"]["ingress"] == [{"ports": [{"port": "health", "protocol": "TCP"}]}]

        # Without its hub it says so once, and its pod is not ready.
        hub.process.terminate()
        until(lambda: not is_ready(release))
        hub.start()
        until(lambda: is_ready(release))
        logs = release.kubectl("logs", "deployment/shoal-syncer")
        assert (logs.count(LOST), logs.count(BACK)) == (1, 1), logs
        assert release.pod("syncer")["status"]["containerStatuses"][0]["restartCount"] == 0
    finally:
        release.remove()
        kind_cluster.kubectl("delete", "deployment", "web", "--ignore-not-found", "--wait=false")


def hub_kubeconfig(hub: Hub) -> str:
    """In what `shoal join-cluster` prints."""
    words = command("join-cluster", "far", "--mode", "pull", "--kubeconfig", str(hub.process.data / "kubeconfig"))
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    secret = next(each for each in yaml.safe_load_all(done.stdout) if each and each["kind"] == "Secret")
    return base64.b64decode(secret["data"]["kubeconfig"]).decode()


def deployment() -> Object:
    labels = {"app": "web"}
    container = {"name": "web", "image": BUSYBOX, "command": ["sleep", "3600"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "labels": {"workloads.kcp.dev/cluster": "far"}},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def release_is_up(hub: Hub) -> bool:
    return hub.kubectl("get", "deployment", "web", "-o", "jsonpath={.status.availableReplicas}") == "1"


def is_ready(release: Release) -> bool:
    conditions = release.pod("syncer")["status"]["conditions"]
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
