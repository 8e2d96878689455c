"""How the address of a ManagedCluster reaches the hosted cluster: copy, EmbeddedCluster, LogicalCluster."""

from __future__ import annotations

from typing import Any

from shoal.capi.providers.embedded.clusters import decide as embedded
from shoal.fleet.bus.interface import BusMessage, MessageVersion
from shoal.fleet.worker.hosting.decide import plan_changes
from shoal.fleet.worker.subscriber.decide import CopyAction, decide, new_copy
from shoal.kinds.clusterapi.embedded import OWNER_UID_ANNOTATION
from shoal.objects import mergepatch

Object = dict[str, Any]

ADDRESS = {"host": "192.0.2.1", "port": 20_000}
SERVER = embedded.HostingServer("https://127.0.0.1:6443", "PEM")
NOW = "2026-11-15T12:00:00Z"


def message(revision: int, address: Object | None) -> BusMessage:
    status = {"endpoint": address} if address else {}
    managed = {"metadata": {"name": "east", "namespace": "ns", "uid": "u"}, "spec": {"nodes": 0}, "status": status}
    return BusMessage(("ns", "east"), MessageVersion("u", 1, 1, revision), False, managed)


def stored(obj: Object, **metadata: Any) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "uid": "own", "resourceVersion": "7", **metadata}}


def test_the_copy_has_the_address() -> None:
    copy = stored(new_copy(message(10, None), "hub"))
    assert "shoal.dev/endpoint" not in copy["metadata"]["annotations"]
    told = decide(message(11, ADDRESS), copy, "hub")
    assert told.action is CopyAction.UPDATE
    assert told.copy is not None
    copy = mergepatch.apply(copy, told.copy)
    assert copy["metadata"]["annotations"]["shoal.dev/endpoint"] == "192.0.2.1:20000"
    assert decide(message(12, ADDRESS), copy, "hub").action is CopyAction.NOTHING
    assert new_copy(message(12, ADDRESS), "hub")["metadata"]["annotations"] == {
        **copy["metadata"]["annotations"],
        "shoal.dev/hub-revision": "12",
    }
    told = decide(message(13, None), copy, "hub")
    assert told.copy is not None
    assert "shoal.dev/endpoint" not in mergepatch.apply(copy, told.copy)["metadata"]["annotations"]


def test_the_embedded_cluster_has_the_address() -> None:
    with_address = stored({**new_copy(message(10, ADDRESS), "hub"), "spec": {"infrastructure": "embedded"}})
    without = stored({**new_copy(message(10, None), "hub"), "spec": {"infrastructure": "embedded"}})
    owner = {"metadata": {"name": "east", "namespace": "ns", "uid": "owner"}}
    made = plan_changes(with_address, {("clusters", "east"): owner}, ("embedded",))
    cluster = next(obj for plural, obj in made.create if plural == "embeddedclusters")
    assert cluster["spec"] == {"endpoint": ADDRESS}
    observed = {("clusters", "east"): owner, ("embeddedclusters", "east"): stored(cluster)}
    patches = [patch for plural, _, patch in plan_changes(without, observed, ("embedded",)).patch]
    assert patches == [{"spec": {"endpoint": None}}]
    assert plan_changes(with_address, observed, ("embedded",)).patch == []


def test_the_logical_cluster_has_the_address() -> None:
    cluster = {"metadata": {"name": "east", "namespace": "ns", "uid": "c"}, "spec": {}}
    obj: Object = {"metadata": {"name": "east", "namespace": "ns", "uid": "e"}, "spec": {"endpoint": ADDRESS}}
    logical: Object = {"metadata": {"name": "ns.east", "annotations": {OWNER_UID_ANNOTATION: "e"}}, "spec": {}}
    logical["status"] = {"phase": "Ready"}

    def status_of(obj: Object, logical: Object) -> Object | None:
        snapshot = embedded.EmbeddedClusterSnapshot(obj, cluster, logical, None, None)
        found = embedded.decide(snapshot, SERVER, NOW).logical_cluster_status
        return found["status"] if found is not None else None

    assert status_of(obj, logical) == {"phase": "Ready", "endpoint": ADDRESS}
    addressed = {**logical, "status": {"phase": "Ready", "endpoint": ADDRESS}}
    assert status_of(obj, addressed) is None
    assert status_of({**obj, "spec": {}}, addressed) == {"phase": "Ready"}
    asks_itself = {**addressed, "spec": {"endpoint": {"type": "Port"}}}
    assert status_of({**obj, "spec": {}}, asks_itself) is None
