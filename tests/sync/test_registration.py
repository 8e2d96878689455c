"""ManagedClusters and Cluster API Clusters are registered as workload Clusters, and only their own registration is
removed.
"""

from __future__ import annotations

from typing import Any

import pytest

from shoal.sync.controllers import SyncSettings
from shoal.sync.registration.decide import RegistrationSource, cluster_for, decide
from tests.serving import Cluster, Server
from tests.sync.hub_server import own_hub
from tests.sync.sync_environment import WORKLOAD_CLUSTERS, workload_cluster

Object = dict[str, Any]

MANAGED, CAPI = RegistrationSource(True, "team", "east"), RegistrationSource(False, "team", "east")
INITIALIZED = {"initialization": {"controlPlaneInitialized": True, "infrastructureProvisioned": True}}
CLUSTERS = "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/clusters"


def origin(status: Object, spec: Object | None = None, **metadata: object) -> Object:
    return {"metadata": {"name": "east", "namespace": "team", **metadata}, "spec": spec or {}, "status": status}


def managed(phase: str = "Running", register: bool = True, **metadata: object) -> Object:
    return {"metadata": {"name": "a", **metadata}, "spec": {"register": register}, "status": {"phase": phase}}


def registered(namespace: str = "default", name: str = "a", **metadata: object) -> Object:
    made = cluster_for(RegistrationSource(True, namespace, name), managed())
    return {**made, "metadata": {**made["metadata"], "uid": "u-1", **metadata}}


FOREIGN = {"metadata": {"name": "a", "uid": "u-9"}}


@pytest.mark.parametrize(
    ("given", "cluster", "created", "deleted", "reason"),
    [
        (managed(), None, True, "", ""),
        (managed("Provisioning"), None, False, "", ""),
        (managed("Failed"), registered(), False, "", "Registered"),
        (managed(), registered(), False, "", "Registered"),
        (managed(), FOREIGN, False, "", "NameTaken"),
        (managed(register=False), registered(), False, "u-1", "NotRegistered"),
        (managed(register=False), FOREIGN, False, "", "NotRegistered"),
        (managed(deletionTimestamp="now"), registered(), False, "u-1", ""),
        (managed(deletionTimestamp="now"), registered(deletionTimestamp="now"), False, "", ""),
        (None, registered(), False, "u-1", ""),
        (None, registered("team", "a"), False, "", ""),
        (None, FOREIGN, False, "", ""),
    ],
)
def test_registration(given: Object | None, cluster: Object | None, created: bool, deleted: str, reason: str) -> None:
    decision = decide(RegistrationSource(True, "default", "a"), given, cluster)
    assert (decision.create is not None, decision.delete) == (created, deleted)
    assert (decision.condition.reason if decision.condition else "") == reason


def test_a_name_that_is_too_long_is_told() -> None:
    told = decide(RegistrationSource(True, "team", "n" * 60), managed(), None).condition
    assert told is not None
    assert told.reason == "NameTooLong"


@pytest.mark.parametrize(
    ("of", "found"),
    [
        (MANAGED, origin({"phase": "Provisioning"})),
        (CAPI, origin({})),
        (CAPI, origin({"initialization": {"controlPlaneInitialized": True}})),
    ],
)
def test_what_is_not_ready_waits(of: RegistrationSource, found: Object) -> None:
    assert decide(of, found, None).create is None


def test_a_managed_cluster_brings_its_labels_and_its_location() -> None:
    found = origin({"phase": "Running"}, {"location": "eu"}, labels={"tier": "gold"})
    made = decide(MANAGED, found, None).create
    assert made is not None
    assert made["metadata"] == {
        "name": "team.east",
        "labels": {"tier": "gold", "shoal.dev/location": "eu", "shoal.dev/managedcluster": "team.east"},
    }
    assert decide(MANAGED, found, made).labels == {}
    changed = origin({"phase": "Running"}, labels={"tier": "silver"})
    assert decide(MANAGED, changed, made).labels == {"tier": "silver"}


def test_a_cluster_api_cluster() -> None:
    made = decide(CAPI, origin(INITIALIZED), None).create
    assert made is not None
    assert made["metadata"]["labels"] == {"shoal.dev/capicluster": "team.east"}
    assert made["spec"]["kubeconfigSecretRef"] == {"namespace": "team", "name": "east-kubeconfig", "key": "value"}
    own = {**made, "metadata": {**made["metadata"], "uid": "u"}}
    assert decide(CAPI, None, own).delete == "u"
    assert decide(CAPI, origin(INITIALIZED, deletionTimestamp="now"), own).delete == "u"
    assert decide(CAPI, origin(INITIALIZED, annotations={"workloads.kcp.dev/register": "false"}), own).delete == "u"
    # One that somebody else registered, or that is of a ManagedCluster, is not touched.
    for other in (workload_cluster("team.east", {}), decide(MANAGED, origin({"phase": "Running"}), None).create):
        assert other is not None
        other["metadata"]["uid"] = "o"
        assert decide(CAPI, None, other).delete == ""
        told = decide(CAPI, origin(INITIALIZED), other)
        assert told.create is None
        assert told.condition is not None
        assert told.condition.reason == "NameTaken"


def names(hub: Cluster) -> set[str]:
    return {each["metadata"]["name"] for each in hub.get(WORKLOAD_CLUSTERS).ok()["items"]}


def test_cluster_api_clusters_on_a_hub(server: Server) -> None:
    with own_hub(server, SyncSettings(mode="none")) as hub:
        reference = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "EmbeddedCluster", "name": "any"}
        for name, annotations in (("one", {}), ("taken", {}), ("alone", {"workloads.kcp.dev/register": "false"})):
            body: Object = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster"}
            body["metadata"] = {"name": name, "annotations": annotations, "labels": {"region": "eu"}}
            hub.post(CLUSTERS, {**body, "spec": {"infrastructureRef": reference}}).ok()
        hub.post(WORKLOAD_CLUSTERS, workload_cluster("taken", {})).ok()
        assert names(hub) == {"taken"}
        for name in ("one", "taken", "alone"):
            hub.patch(f"{CLUSTERS}/{name}/status", {"status": INITIALIZED}).ok()
        hub.eventually(lambda: "one" in names(hub))
        assert hub.get(f"{WORKLOAD_CLUSTERS}/one").ok()["metadata"]["labels"]["region"] == "eu"

        def problem() -> str:
            said: str = (
                hub.get(f"{CLUSTERS}/taken").ok()["metadata"]["annotations"].get("workloads.kcp.dev/problem", "")
            )
            return said

        hub.eventually(problem)
        assert (
            problem()
            == "clusters.workload.kcp.dev 'taken' already exists and does not belong to this Cluster API Cluster"
        )
        hub.patch(f"{CLUSTERS}/alone", {"metadata": {"annotations": {"workloads.kcp.dev/register": None}}}).ok()
        hub.eventually(lambda: "alone" in names(hub))
        for name in ("one", "taken"):
            hub.delete(f"{CLUSTERS}/{name}").ok()
        hub.eventually(lambda: names(hub) == {"taken", "alone"})
