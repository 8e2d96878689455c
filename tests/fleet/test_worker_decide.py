"""A worker's decisions: what a message does to the copy, which objects host a cluster, what is reported."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from shoal.fleet.bus.interface import BusMessage, MessageVersion
from shoal.fleet.worker.hosting.decide import HostingChanges, ObservedObjects, merge_patch_to, plan_changes
from shoal.fleet.worker.hosting.objects import cluster_object, member_objects
from shoal.fleet.worker.hosting.upgrade import TargetVersions
from shoal.fleet.worker.reporter.controller import hub_kubeconfig
from shoal.fleet.worker.reporter.decide import HostedState, cluster_status
from shoal.fleet.worker.settings import WorkerSettings
from shoal.fleet.worker.subscriber.decide import CopyAction, CopyDecision, decide, new_copy, version_of
from shoal.kinds.fleet import infrav1
from shoal.objects import mergepatch

Object = dict[str, Any]
NOW = "2026-11-15T12:00:00Z"
SPEC = {"nodes": 2, "infrastructure": "embedded", "version": "v1.36.4"}
CAPACITY = "capacity.cluster-autoscaler.kubernetes.io/"


def message(deleting: bool = False, **changes: Any) -> BusMessage:
    mark: Object = {"uid": "u", "generation": 1, "epoch": 1, "revision": 10} | changes
    spec = mark.pop("spec", SPEC)
    managed = {"metadata": {"name": "east", "namespace": "ns", "uid": mark["uid"], "generation": 1}, "spec": spec}
    return BusMessage(("ns", "east"), MessageVersion(**mark), deleting, managed)


def copy(**metadata: Any) -> Object:
    made = new_copy(message(), "hub")
    return {**made, "metadata": {**made["metadata"], "uid": "own", "resourceVersion": "7", **metadata}}


# --- the subscriber ---


def test_the_copy_carries_the_marks() -> None:
    made = new_copy(message(), "hub")
    assert made["spec"] == SPEC
    assert made["metadata"]["finalizers"] == [infrav1.MANAGED_CLUSTER_FINALIZER]
    assert version_of(made) == message().version


@pytest.mark.parametrize(
    ("told", "existing", "step"),
    [
        (message(), None, CopyAction.CREATE),
        (message(deleting=True), None, CopyAction.ACKNOWLEDGE),
        (message(), copy(), CopyAction.NOTHING),
        (message(revision=99), copy(), CopyAction.NOTHING),
        (message(deleting=True, revision=99), copy(), CopyAction.DELETE),
        (message(deleting=True, revision=99), copy(deletionTimestamp=NOW), CopyAction.NOTHING),
        (message(deleting=True, revision=9), copy(), CopyAction.NOTHING),
        (message(spec={"nodes": 5}, revision=9), copy(), CopyAction.NOTHING),
        (message(spec={"nodes": 5}, revision=11), copy(), CopyAction.UPDATE),
        (message(epoch=2, revision=11), copy(), CopyAction.UPDATE),
        (message(uid="new", revision=11), copy(), CopyAction.DELETE),
        (message(uid="new", revision=11), copy(deletionTimestamp=NOW), CopyAction.NOTHING),
        (message(uid="old", revision=9), copy(), CopyAction.NOTHING),
    ],
)
def test_what_a_message_does(told: BusMessage, existing: Object | None, step: CopyAction) -> None:
    assert decide(told, existing, "hub").action is step


def test_revisions_of_another_hub_tell_nothing() -> None:
    assert decide(message(uid="other", revision=1), copy(), "another hub").action is CopyAction.DELETE


specs = st.dictionaries(
    st.sampled_from(["nodes", "version", "workerSelector"]),
    st.one_of(st.integers(0, 3), st.dictionaries(st.sampled_from("ab"), st.integers(0, 2), max_size=2)),
    max_size=3,
)


@given(specs, specs)
def test_an_update_leaves_exactly_what_the_hub_has(old: Object, new: Object) -> None:
    existing = {**copy(), "spec": old}
    found = decide(message(spec=new, revision=11), existing, "hub")
    if old == new:
        assert found == CopyDecision(CopyAction.NOTHING)
        return
    assert found.copy is not None
    after = mergepatch.apply(existing, found.copy)
    assert after["spec"] == new
    assert version_of(after).revision == 11
    assert decide(message(spec=new, revision=11), after, "hub") == CopyDecision(CopyAction.NOTHING)


# --- hosting ---


def world(*objects: tuple[str, Object]) -> ObservedObjects:
    return {(plural, obj["metadata"]["name"]): obj for plural, obj in objects}


def made(plural: str, obj: Object, **metadata: Any) -> tuple[str, Object]:
    return plural, {**obj, "metadata": {**obj["metadata"], "uid": f"{plural}-uid", **metadata}}


OWNER = made("clusters", cluster_object(copy()))
SAME = TargetVersions("v1.36.4", "v1.36.4")
WHOLE = [OWNER, *(made(plural, obj) for plural, obj in member_objects(copy(), OWNER[1], SAME))]


def test_the_cluster_comes_first_for_its_uid() -> None:
    found = plan_changes(copy(), world(), ("embedded",))
    assert [plural for plural, _ in found.create] == ["clusters"]
    obj = found.create[0][1]
    assert obj["apiVersion"] == "cluster.x-k8s.io/v1beta2"
    assert obj["spec"]["infrastructureRef"] == {
        "apiGroup": "infrastructure.cluster.x-k8s.io",
        "kind": "EmbeddedCluster",
        "name": "east",
    }
    assert obj["metadata"]["ownerReferences"][0]["uid"] == "own"


def test_everything_else_is_owned_by_it() -> None:
    found = plan_changes(copy(), world(OWNER), ("embedded",))
    pools = ["east-default", "east-small", "east-medium", "east-large"]
    expected = {("embeddedclusters", "east")}
    expected |= {(plural, pool) for pool in pools for plural in ("embeddedmachinetemplates", "machinedeployments")}
    assert {(plural, obj["metadata"]["name"]) for plural, obj in found.create} == expected
    assert {obj["metadata"]["ownerReferences"][0]["uid"] for _, obj in found.create} == {"clusters-uid"}
    assert {obj["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] for _, obj in found.create} == {"east"}


def by_name(plural: str, name: str) -> Object:
    made_of = member_objects(copy(), OWNER[1], SAME)
    return next(obj for kind, obj in made_of if (kind, obj["metadata"]["name"]) == (plural, name))


def test_the_pool_of_nodes_asked_for_and_those_to_buy_from() -> None:
    default, large = by_name("machinedeployments", "east-default"), by_name("machinedeployments", "east-large")
    assert default["spec"]["replicas"] == 2
    assert large["spec"]["replicas"] == 0
    member = "node.cluster.x-k8s.io/karpenter-member"
    assert member not in default["metadata"]["labels"]
    assert large["metadata"]["labels"][member] == ""
    annotations = large["metadata"]["annotations"]
    assert annotations["cluster.x-k8s.io/machine-current-price"] == "0.30"
    assert (annotations[f"{CAPACITY}cpu"], annotations[f"{CAPACITY}memory"]) == ("16", "64Gi")
    assert annotations[f"{CAPACITY}maxPods"] == "110"
    assert "node.kubernetes.io/instance-type=large" in annotations[f"{CAPACITY}labels"].split(",")
    assert "topology.kubernetes.io/zone=embedded-a" in annotations[f"{CAPACITY}labels"].split(",")
    machine = large["spec"]["template"]["spec"]
    assert machine["version"] == "v1.36.4"
    assert machine["infrastructureRef"]["name"] == "east-large"
    template = by_name("embeddedmachinetemplates", "east-large")["spec"]["template"]["spec"]
    assert template["taints"] == [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]
    assert template["capacity"]["cpu"] == "16"
    assert "taints" not in by_name("embeddedmachinetemplates", "east-default")["spec"]["template"]["spec"]


def test_nothing_is_done_where_nothing_differs() -> None:
    found = plan_changes(copy(), world(*WHOLE), ("embedded",))
    assert found == HostingChanges()


def test_nodes_and_version_flow_and_the_provisioners_numbers_stay() -> None:
    changed = {**copy(), "spec": {**SPEC, "nodes": 5, "version": "v1.36.5"}}
    bought = [
        (plural, {**obj, "spec": {**obj["spec"], "replicas": 9}} if obj["metadata"]["name"] == "east-large" else obj)
        for plural, obj in WHOLE
    ]
    found = plan_changes(changed, world(*bought), ("embedded",))
    assert not found.create
    version = {"template": {"spec": {"version": "v1.36.5"}}}
    assert {(plural, name): patch["spec"] for plural, name, patch in found.patch} == {
        ("embeddedclusters", "east"): {"version": "v1.36.5"},
        ("machinedeployments", "east-default"): {"replicas": 5, **version},
        ("machinedeployments", "east-small"): version,
        ("machinedeployments", "east-medium"): version,
        ("machinedeployments", "east-large"): version,
    }


def test_what_others_added_is_theirs() -> None:
    embedded = by_name("embeddedclusters", "east")
    filled = {**embedded, "spec": {**embedded["spec"], "controlPlaneEndpoint": {"host": "h", "port": 1}}}
    others = [one for one in WHOLE if one[0] != "embeddedclusters"]
    assert not plan_changes(copy(), world(*others, ("embeddedclusters", filled)), ("embedded",)).patch


def test_an_infrastructure_that_is_not_provided_makes_nothing() -> None:
    found = plan_changes({**copy(), "spec": {"infrastructure": "kind"}}, world(), ("embedded",))
    assert found == HostingChanges()


GOING = copy(deletionTimestamp=NOW)


def test_the_cluster_goes_first_then_what_is_left_then_the_copy() -> None:
    assert plan_changes(GOING, world(*WHOLE), ("embedded",)).delete == [("clusters", "east", "clusters-uid")]
    waiting = plan_changes(GOING, world(made(*OWNER, deletionTimestamp=NOW), *WHOLE[1:]), ("embedded",))
    assert waiting == HostingChanges()
    left = plan_changes(GOING, world(WHOLE[1]), ("embedded",))
    assert left.delete == [("embeddedclusters", "east", "embeddedclusters-uid")]
    assert not left.release_copy
    assert plan_changes(GOING, world(), ("embedded",)).release_copy


trees = st.recursive(
    st.one_of(st.integers(0, 2), st.lists(st.integers(0, 2), max_size=2)),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from("abc"), trees, max_size=3)


@given(objects, objects)
def test_a_difference_brings_about_what_is_wanted_once(existing: Object, wanted: Object) -> None:
    after = mergepatch.apply(existing, merge_patch_to(existing, wanted))
    assert merge_patch_to(after, wanted) == {}


# --- the reporter ---

MANAGED = {**message().managed, "status": {"assignedWorker": "w", "epoch": 1}}
WORKER = WorkerSettings("w", version="v1.36.4")
TRUSTING = WorkerSettings("w", hub_ca="CA")
UP: Object = {"metadata": {"name": "east"}, "status": {"phase": "Provisioned"}}


def pool(ready: int) -> Object:
    return {"metadata": {"name": "east-default"}, "status": {"readyReplicas": ready}}


def conditions(status: Object) -> dict[str, str]:
    return {one["type"]: one["status"] for one in status["conditions"]}


@pytest.mark.parametrize(
    ("hosted", "phase", "ready", "infrastructure", "nodes"),
    [
        (HostedState(), "Provisioning", "False", "False", "False"),
        (HostedState(UP), "Provisioning", "False", "False", "False"),
        (HostedState(UP, "config"), "Running", "True", "False", "False"),
        (HostedState(UP, "config", pools={"default": pool(2)}), "Running", "True", "False", "True"),
        (
            HostedState({**UP, "status": {"initialization": {"infrastructureProvisioned": True}}}, "config"),
            "Provisioning",
            "False",
            "True",
            "False",
        ),
        (
            HostedState({**UP, "metadata": {"deletionTimestamp": NOW}}, "config"),
            "Provisioning",
            "False",
            "False",
            "False",
        ),
    ],
)
def test_reports(hosted: HostedState, phase: str, ready: str, infrastructure: str, nodes: str) -> None:
    status = cluster_status(MANAGED, hosted, WORKER, NOW)
    assert status["phase"] == phase
    expected = {"Ready": ready, "InfrastructureReady": infrastructure, "NodesReady": nodes}
    assert conditions(status) == expected | ({"Upgraded": "True"} if phase == "Running" else {})
    assert status["observedGeneration"] == 1
    assert cluster_status({**MANAGED, "status": status}, hosted, WORKER, "later") == status


def test_nodes_are_those_of_all_pools_and_none_asked_for_is_enough() -> None:
    managed = {**MANAGED, "spec": {"nodes": 0, "infrastructure": "embedded"}}
    status = cluster_status(managed, HostedState(UP, "c", pools={"default": pool(0), "large": pool(3)}), WORKER, NOW)
    assert status["nodes"] == 3
    assert status["nodePools"] == [{"name": "default", "nodes": 0, "readyNodes": 0}]
    assert conditions(status)["NodesReady"] == "True"


def test_the_infrastructures_own_words_are_passed_on() -> None:
    said = {"type": "InfrastructureReady", "status": "Unknown", "reason": "Broken", "message": "no route"}
    hosted = HostedState({**UP, "status": {"conditions": [said]}})
    found = cluster_status(MANAGED, hosted, WORKER, NOW)["conditions"][0]
    assert {key: found[key] for key in said} == said


def test_an_infrastructure_that_is_not_provided_is_refused_by_name() -> None:
    managed = {**MANAGED, "spec": {"infrastructure": "kind"}, "status": {"assignedWorker": "w", "epoch": 1}}
    status = cluster_status(managed, HostedState(), WORKER, NOW)
    text = "infrastructure kind is not supported by worker w, which provides embedded"
    assert status["phase"] == "Failed"
    assert status["epoch"] == 1
    assert status["errors"] == [{"time": NOW, "reason": "InfrastructureNotSupported", "message": text}]
    assert conditions(status) == {"Ready": "False"}
    assert cluster_status({**managed, "status": status}, HostedState(), WORKER, "later") == status
    assert "errors" not in cluster_status({**MANAGED, "status": status}, HostedState(UP, "c"), WORKER, NOW)


def test_the_kubeconfig_names_the_hub() -> None:
    text = yaml.safe_dump({"users": [{"name": "x", "user": {"token": "secret"}}]})
    secret = {"metadata": {"name": "s"}, "data": {"value": base64.b64encode(text.encode()).decode()}}
    made_of = yaml.safe_load(hub_kubeconfig(secret, "east", "https://hub/managedclusters/ns/east", TRUSTING))
    assert made_of["clusters"][0]["cluster"] == {
        "server": "https://hub/managedclusters/ns/east",
        "certificate-authority-data": "Q0E=",
    }
    assert made_of["users"] == [{"name": "east-admin", "user": {"token": "secret"}}]
    assert made_of["current-context"] == made_of["contexts"][0]["name"] == "east"
    assert "certificate-authority-data" not in hub_kubeconfig(secret, "east", "https://hub", WORKER)


@pytest.mark.parametrize("data", [None, {}, {"value": "%%"}, {"value": ""}, {"value": "dXNlcnM6IFtd"}])
def test_a_broken_kubeconfig_is_said_without_its_content(data: Object | None) -> None:
    with pytest.raises(ValueError, match=r"^Secret s has no kubeconfig with exactly one user$"):
        hub_kubeconfig({"metadata": {"name": "s"}, "data": data}, "east", "https://hub", TRUSTING)
