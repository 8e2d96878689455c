"""The chart in a kind cluster of real containers: installed, tested, upgraded from the release before, and removed.

The network of the nodes does not enforce NetworkPolicies: these tests see that they exist, not that they keep others
out.
"""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from shoal import __version__
from tests.faults.processes import command
from tests.packages.manifests import CHART
from tests.real.containers.control_plane import VERSION
from tests.real.containers.shoal_image import export, has_commit, shoal_image
from tests.real.hubs import KubectlAt
from tests.real.kind_machine import SMALL, KindCluster, Object, Release, until

pytestmark = pytest.mark.containers

BEFORE = "fd4263b"
"""The commit that version 0.1.0 was, with its chart."""
SYSTEM = ("-n", "shoal-system")
HUB: Object = {"persistence": {"size": "1Gi"}, "resources": SMALL}
FAR: Object = {"name": "far", "size": "1Gi", "resources": SMALL, "location": "north"}
EAST: Object = {
    "apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1",
    "kind": "ManagedCluster",
    "metadata": {"name": "east", "namespace": "default"},
    "spec": {"version": VERSION},
}
SETTINGS: Object = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "settings", "namespace": "default"},
    "data": {"greeting": "hello"},
}


@pytest.fixture
def release(request: pytest.FixtureRequest, kind_cluster: KindCluster) -> Iterator[Release]:
    """By Helm 4, unless a test asks for the other one."""
    namespace = request.node.originalname.replace("_", "-")[:30].strip("-")
    found = Release(kind_cluster, getattr(request, "param", "helm4"), namespace)
    yield found
    found.remove()


def worker(hub: KubectlAt, name: str) -> Object:
    found: Object = json.loads(hub("get", "worker", name, *SYSTEM, "-o", "json"))
    return found


def is_ready(hub: KubectlAt, name: str) -> bool:
    conditions = worker(hub, name).get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def apply(hub: KubectlAt, directory: Path, *objects: Object) -> None:
    file = directory / "applied.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    hub("apply", "-f", str(file))


def runs(hub: KubectlAt, name: str) -> bool:
    return hub("get", "managedcluster", name, "-o", "jsonpath={.status.phase}") == "Running"


def uids(hub: KubectlAt) -> list[str]:
    """Of what must not be lost."""
    names = ("managedcluster/east", "configmap/settings")
    return [hub("get", name, "-o", "jsonpath={.metadata.uid}") for name in names]


def join_secret(release: Release, name: str) -> tuple[str, Object]:
    """The state, and the user of the kubeconfig."""
    data = {
        key: base64.b64decode(value).decode()
        for key, value in release.get("secret", f"shoal-worker-{name}-join").get("data", {}).items()
    }
    return data["state"], yaml.safe_load(data["kubeconfig"])["users"][0]["user"]


def has_joined(release: Release, name: str) -> bool:
    return join_secret(release, name) == ("Joined", {})


@pytest.mark.smoke
def test_a_release_is_installed_and_its_worker_joins_by_itself(release: Release) -> None:
    release.install({"hub": HUB, "workers": [FAR]})
    until(lambda: has_joined(release, "far"))
    said = release.helm("test", "shoal", "--logs")
    lines = [line.split() for line in said.splitlines() if line.startswith(("ok ", "fail "))]
    assert [line[0] for line in lines] == ["ok"] * 9, said
    names = [f"https://shoal-hub{rest}:6443" for rest in ("", f".{release.namespace}", f".{release.namespace}.svc")]
    assert {line[1] for line in lines} >= {*names, "worker"}
    assert lines[0][-1].endswith(f"+shoal-{__version__}")
    assert lines[-1] == ["ok", "worker", "far", "Joined"]

    with release.hub() as hub:
        assert is_ready(hub, "far")
        assert worker(hub, "far")["spec"]["location"] == "north"
        # Tokens of workers that have joined are gone.
        assert hub("get", "secrets", "-n", "kube-system", "-l", "shoal.dev/join-secret", "-o", "name") == ""
        apply(hub, release.directory, EAST, SETTINGS)
        until(lambda: runs(hub, "east"))
        inside_through_the_port_forward(release)
    policies = release.kubectl("get", "networkpolicies", "-o", "name").split()
    assert sorted(policies) == [f"networkpolicy.networking.k8s.io/shoal-{part}" for part in ("hub", "worker-far")]
    # Commands in the pod find their hub.
    assert "far" in release.kubectl("exec", "shoal-hub-0", "--", "shoal", "status")


def inside_through_the_port_forward(release: Release) -> None:
    """`shoal kubeconfig NAME` names the hub by the address that it was given itself."""
    flags = ("--ttl", "1h", "--kubeconfig", str(release.directory / "hub.local"))
    done = subprocess.run(command("kubeconfig", "east", *flags), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "server: https://localhost:" in done.stdout
    (release.directory / "east").write_text(done.stdout)
    inside = KubectlAt(release.directory / "east", release.directory / "inside")
    until(lambda: "namespace/default" in inside("get", "namespaces", "-o", "name"))


def test_a_worker_is_added_lost_expelled_and_made_anew(release: Release) -> None:
    # Nobody in this cluster knows this name: workers beside the hub use that of the Service.
    hub_values = {**HUB, "advertiseAddress": "hub.example.com"}
    release.install({"hub": hub_values, "workers": [FAR]})
    until(lambda: has_joined(release, "far"))
    hub_pod = release.pod("hub")["metadata"]["uid"]
    near = {**FAR, "name": "near"}
    release.install({"hub": hub_values, "workers": [FAR, near]})
    until(lambda: has_joined(release, "near"))
    assert release.pod("hub")["metadata"]["uid"] == hub_pod, "a further worker restarts no hub"
    assert "far" in release.kubectl("exec", "shoal-hub-0", "--", "shoal", "status")
    with release.hub() as hub:
        first = worker(hub, "far")["metadata"]["uid"]
        # A pod that starts again has its certificate on the volume.
        release.kubectl("delete", "pod", "-l", "shoal.dev/worker=far")
        release.kubectl("rollout", "status", "deployment/shoal-worker-far", "--timeout=110s")
        until(lambda: is_ready(hub, "far") and has_joined(release, "far"))
        assert worker(hub, "far")["metadata"]["uid"] == first

        # An expelled worker gets no token, and does not come back by itself.
        hub("annotate", "worker", "far", *SYSTEM, "shoal.dev/expelled=true")
        until(lambda: join_secret(release, "far") == ("Expelled", {}))

        # Its volume is gone for good: who deletes the Worker lets a new one join.
        release.kubectl("scale", "deployment/shoal-worker-far", "--replicas=0")
        release.kubectl("delete", "pvc", "shoal-worker-far", "--wait=false")
        until(lambda: "shoal-worker-far" not in release.kubectl("get", "pvc", "-o", "name"))
        hub("delete", "worker", "far", *SYSTEM, "--timeout=100s")
        until(lambda: join_secret(release, "far")[0] == "Waiting")
        token = join_secret(release, "far")[1]["token"]
        release.install({"hub": hub_values, "workers": [FAR, near]})
        until(lambda: has_joined(release, "far"))
        assert worker(hub, "far")["metadata"]["uid"] != first
        assert token.partition(".")[0] not in hub("get", "secrets", "-n", "kube-system", "-o", "name")


@pytest.mark.parametrize("release", ["helm3"], indirect=True)
def test_a_release_that_is_removed_and_installed_again_goes_on(release: Release) -> None:
    values = {"hub": HUB, "workers": [FAR]}
    release.install(values)
    until(lambda: has_joined(release, "far"))
    with release.hub() as hub:
        apply(hub, release.directory, EAST, SETTINGS)
        until(lambda: runs(hub, "east"))
        before = uids(hub)
    old = release.directory / "hub.kubeconfig"
    before_removal = old.rename(release.directory / "old.kubeconfig")
    release.uninstall()
    # Helm 3 does not wait for pods.
    until(lambda: release.kubectl("get", "pods", "-l", "app.kubernetes.io/instance=shoal", "-o", "name") == "")
    volumes = release.kubectl("get", "pvc", "-o", "name").split()
    assert sorted(volumes) == [f"persistentvolumeclaim/{name}" for name in ("data-shoal-hub-0", "shoal-worker-far")]
    release.install(values)
    until(lambda: has_joined(release, "far"))
    # The authority of the hub is the same: a kubeconfig of before is good.
    with release.forwarded(before_removal) as hub:
        assert uids(hub) == before
        until(lambda: runs(hub, "east") and is_ready(hub, "far"))


def test_the_upgrade_from_the_release_before_loses_nothing(
    release: Release, kind_cluster: KindCluster, tmp_path: Path
) -> None:
    if not has_commit(BEFORE):
        pytest.skip(f"commit {BEFORE} (git fetch --unshallow)")
    kind_cluster.load(shoal_image(kind_cluster.engine, "before", BEFORE))
    export(tmp_path, BEFORE)
    secret = {"hubSecret": "far-hub"}
    hub_only = {"hub": HUB, "networkPolicy": {"enabled": True}}
    release.install(hub_only, tag="before", chart=tmp_path / "deploy/chart/shoal")
    # In that release somebody carried the token.
    text = release.kubectl(
        *("exec", "shoal-hub-0", "--", "shoal", "join-token", "create", "--name", "far", "-o", "kubeconfig")
    )
    (tmp_path / "kubeconfig").write_text(text)
    release.kubectl("create", "secret", "generic", "far-hub", f"--from-file={tmp_path / 'kubeconfig'}")
    release.install({**hub_only, "workers": [{**FAR, **secret}]}, tag="before")
    with release.hub("before.kubeconfig") as hub:
        until(lambda: is_ready(hub, "far"))
        apply(hub, release.directory, EAST, SETTINGS)
        until(lambda: runs(hub, "east"))
        before, worker_before = uids(hub), worker(hub, "far")["metadata"]["uid"]

    release.install({**hub_only, "workers": [{**FAR, **secret}]}, chart=CHART)
    # Kubeconfigs of before are accepted until `shoal rotate-ca --finish` (docs/upgrading.md).
    with release.forwarded(release.directory / "before.kubeconfig") as hub:
        assert uids(hub) == before
        assert hub("get", "configmap", "settings", "-o", "jsonpath={.data.greeting}") == "hello"
        until(lambda: is_ready(hub, "far") and runs(hub, "east"))

    # Without the Secret that was made by hand it stays joined.
    release.install({**hub_only, "workers": [FAR]})
    until(lambda: has_joined(release, "far"))
    release.helm("test", "shoal")
    with release.hub() as hub:
        assert uids(hub) == before
        assert worker(hub, "far")["metadata"]["uid"] == worker_before
        until(lambda: is_ready(hub, "far") and runs(hub, "east"))


def test_three_hubs_on_etcd(release: Release, kind_cluster: KindCluster) -> None:
    kind_cluster.kubectl("create", "namespace", release.namespace)
    etcd = ["etcd", "--data-dir=/tmp/etcd", "--listen-client-urls=http://0.0.0.0:2379"]
    container = {"name": "etcd", "image": etcd_image(kind_cluster), "resources": SMALL}
    container["command"] = [*etcd, "--advertise-client-urls=http://etcd:2379"]
    labels = {"app": "etcd"}
    metadata = {"name": "etcd", "namespace": release.namespace}
    kind_cluster.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"selector": labels, "ports": [{"port": 2379}]},
        },
    )
    release.install(
        {"hub": {**HUB, "replicas": 3, "etcd": {"endpoints": ["http://etcd:2379"]}}, "workers": [FAR]},
    )
    until(lambda: has_joined(release, "far"))
    release.helm("test", "shoal")
    budget = release.get("poddisruptionbudget", "shoal-hub")["status"]
    assert (budget["expectedPods"], budget["currentHealthy"], budget["disruptionsAllowed"]) == (3, 3, 1)
    with release.hub() as hub:
        apply(hub, release.directory, EAST, SETTINGS)
        until(lambda: runs(hub, "east"))
        before = uids(hub)
    # Each of them is replaced in turn, and the fleet goes on.
    release.kubectl("delete", "pod", "shoal-hub-0")
    release.kubectl("rollout", "status", "statefulset/shoal-hub", "--timeout=115s")
    with release.hub() as hub:
        assert uids(hub) == before
        until(lambda: runs(hub, "east") and is_ready(hub, "far"))
    until(lambda: has_joined(release, "far"))


def etcd_image(kind_cluster: KindCluster) -> str:
    """The one that the node has for its own control plane."""
    found = kind_cluster.kubectl("get", "pods", "-n", "kube-system", "-l", "component=etcd", "-o", "json")
    image: str = json.loads(found)["items"][0]["spec"]["containers"][0]["image"]
    return image
