"""A Machine and its Node: propagated metadata, and the drain before deletion."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shoal.capi.machines import decide as machines
from shoal.capi.machines.drain import DrainState, drain_message, eviction_body, plan_drain, poll_interval
from shoal.capi.machines.nodes import node_patch
from shoal.clock import rfc3339
from tests.capi.management_cluster import Management, condition
from tests.capi.test_decide import DELETED, NOW, STAMP, cluster, machine, machine_set, made
from tests.serving import Cluster

Object = dict[str, Any]


def pod(name: str, owner: str = "", phase: str = "Running", **metadata: Any) -> Object:
    own: Object = {"namespace": "default", "name": name}
    if owner:
        own["ownerReferences"] = [{"kind": owner, "name": "o", "uid": "1", "controller": True}]
    return {"metadata": {**own, **metadata}, "status": {"phase": phase}}


SKIP, WAIT = {"cluster.x-k8s.io/drain": "skip"}, {"cluster.x-k8s.io/drain": "wait-completed"}


@pytest.mark.parametrize(
    ("found", "unreachable", "expected"),
    [
        (pod("p", "ReplicaSet"), False, "evict"),
        (pod("p"), False, "evict"),
        (pod("p", "DaemonSet"), False, ""),
        (pod("p", "DaemonSet", "Succeeded"), False, "evict"),
        (pod("p", annotations={"kubernetes.io/config.mirror": "x"}), False, ""),
        (pod("p", labels=SKIP), False, ""),
        (pod("p", labels=WAIT), False, "completing"),
        (pod("p", **DELETED), False, "terminating"),
        (pod("p", deletionTimestamp=rfc3339(NOW - 10)), True, ""),
        (pod("p", deletionTimestamp=rfc3339(NOW - 10)), False, "terminating"),
    ],
)
def test_which_pods_go(found: Object, unreachable: bool, expected: str) -> None:
    got = plan_drain([found], unreachable, NOW)
    assert {field: bool(getattr(got, field)) for field in ("evict", "terminating", "completing")} == {
        field: field == expected for field in ("evict", "terminating", "completing")
    }
    assert got.is_done == (not expected)


def test_what_a_drain_says() -> None:
    budget = "Cannot evict pod as it would violate the pod's disruption budget. The disruption budget b needs 2"
    going = tuple(pod(name) for name in "abcd")
    drain = DrainState(terminating=going, completing=(pod("w"),), failed={budget: (pod("x"),), "no route": (pod("y"),)})
    start, *lines = drain_message(drain, STAMP).splitlines()
    assert start == f"Drain not completed yet (started at {STAMP}):"
    stuck = "deletionTimestamp set, but still not removed from the Node"
    assert [line.partition(": ") for line in lines] == [
        ("* Pods default/a, default/b, default/c, ... (1 more)", ": ", stuck),
        ("* Pod default/x", ": ", budget.replace("Cannot", "cannot")),
        ("* Pod default/y", ": ", "failed to evict Pod, no route"),
        ("* Pod default/w", ": ", "waiting for completion"),
    ]


def test_a_node_is_looked_at_less_and_less() -> None:
    assert [poll_interval(STAMP, NOW + passed) for passed in (0, 10, 50, 1000)] == [0.25, 2.0, 10.0, 20.0]


def test_a_pod_of_a_lost_node_gets_no_time() -> None:
    assert "deleteOptions" not in eviction_body(pod("p"), False)
    assert eviction_body(pod("p"), True)["deleteOptions"] == {"gracePeriodSeconds": 1}


NODE: Object = {"metadata": {"name": "m", "uid": "n"}, "spec": {"providerID": "x"}}
LIVING = cluster()
LIVING["status"]["initialization"]["controlPlaneInitialized"] = True


def going(**changes: Any) -> machines.MachineSnapshot:
    """A Machine that is deleted, with all that it has."""
    gone = {**machine(finalizers=["machine.cluster.x-k8s.io"], **DELETED), "status": {"nodeRef": {"name": "m"}}}
    seen = machines.MachineSnapshot(gone, LIVING, made("EmbeddedMachine", "m"), NODE)
    return replace(seen, **changes)


def with_machine(
    seen: machines.MachineSnapshot, deletion: Object | None = None, **metadata: Any
) -> machines.MachineSnapshot:
    changed = {**seen.machine, "metadata": {**seen.machine["metadata"], **metadata}}
    return replace(seen, machine={**changed, "spec": {**changed["spec"], "deletion": deletion or {}}})


def reason(decision: machines.MachineDecision) -> str:
    assert decision.status is not None
    found = condition(decision.status, "Deleting")
    assert found is not None
    return str(found["reason"])


def test_a_machine_is_deleted_in_order() -> None:
    hooked = with_machine(
        going(),
        annotations={
            "pre-drain.delete.hook.machine.cluster.x-k8s.io/a": "",
            "pre-terminate.delete.hook.machine.cluster.x-k8s.io/b": "",
        },
    )
    first = machines.decide(hooked, NOW, STAMP)
    assert reason(first) == "WaitingForPreDrainHook"
    assert first.status is not None
    assert first.status["status"]["deletion"] == {"waitForPreDrainHookStartTime": STAMP}
    seen = with_machine(hooked, annotations={"pre-terminate.delete.hook.machine.cluster.x-k8s.io/b": ""})
    assert machines.decide(seen, NOW, STAMP) == machines.MachineDecision(drain=True)
    busy = machines.decide(replace(seen, drain=DrainState(terminating=(pod("p"),))), NOW, STAMP)
    assert (reason(busy), busy.requeue_after) == ("DrainingNode", 0.25)
    seen = replace(seen, drain=DrainState())
    attached = {**NODE, "status": {"volumesAttached": [{"name": "v"}]}}
    assert reason(machines.decide(replace(seen, node=attached), NOW, STAMP)) == "WaitingForVolumeDetach"
    assert reason(machines.decide(seen, NOW, STAMP)) == "WaitingForPreTerminateHook"
    seen = with_machine(seen, annotations={})
    last = machines.decide(seen, NOW, STAMP)
    assert (reason(last), last.delete_infrastructure) == ("WaitingForInfrastructureDeletion", True)
    seen = replace(seen, infrastructure=None)
    assert machines.decide(seen, NOW, STAMP) == machines.MachineDecision(delete_node=True)
    released: Object = {"metadata": {"finalizers": []}}
    assert machines.decide(seen, NOW + 60, STAMP) == machines.MachineDecision(delete_node=True, patch=released)
    assert machines.decide(replace(seen, node=None), NOW, STAMP) == machines.MachineDecision(patch=released)


def started(field: str, ago: float) -> Object:
    return {"nodeRef": {"name": "m"}, "deletion": {field: rfc3339(NOW - ago)}}


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(going(cluster=cluster(**DELETED)), id="its Cluster goes too"),
        pytest.param(going(cluster=cluster()), id="there is no control plane yet"),
        pytest.param(going(cluster=None), id="there is no Cluster"),
        pytest.param(going(is_last_control_plane=True), id="it is the last control plane Machine"),
        pytest.param(
            with_machine(going(), annotations={"machine.cluster.x-k8s.io/exclude-node-draining": ""}), id="excluded"
        ),
        pytest.param(
            with_machine(
                going(machine={**going().machine, "status": started("nodeDrainStartTime", 61)}),
                {"nodeDrainTimeoutSeconds": 60},
            ),
            id="it took too long",
        ),
    ],
)
def test_a_node_is_not_drained_when(seen: machines.MachineSnapshot) -> None:
    assert machines.decide(seen, NOW, STAMP).delete_infrastructure is True


def test_volumes_are_not_waited_for_when_excluded_or_late() -> None:
    node = {**NODE, "status": {"volumesAttached": [{"name": "v"}]}}
    seen = going(drain=DrainState(), node=node)
    excluded = {"machine.cluster.x-k8s.io/exclude-wait-for-node-volume-detach": ""}
    assert machines.decide(with_machine(seen, annotations=excluded), NOW, STAMP).delete_infrastructure is True
    late = {**seen.machine, "status": started("waitForNodeVolumeDetachStartTime", 61)}
    timed = with_machine(replace(seen, machine=late), {"nodeVolumeDetachTimeoutSeconds": 60})
    assert machines.decide(timed, NOW, STAMP).delete_infrastructure is True
    lost = {**node, "spec": {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]}}
    assert machines.decide(replace(seen, node=lost), NOW, STAMP).delete_infrastructure is True


LABELLED = {"node.cluster.x-k8s.io/pool": "a", "team": "blue"}


def test_a_node_follows_its_machine() -> None:
    owner = machine(labels=LABELLED, annotations={"node.cluster.x-k8s.io/note": "x", "other": "y"})
    owner["spec"]["taints"] = [
        {"key": "always", "effect": "NoSchedule", "propagation": "Always"},
        {"key": "once", "value": "v", "effect": "NoSchedule", "propagation": "OnInitialization"},
    ]
    uninitialized = {"key": "node.cluster.x-k8s.io/uninitialized", "effect": "NoSchedule"}
    node: Object = {"metadata": {"name": "m", "labels": {"mine": "1"}}, "spec": {"taints": [uninitialized]}}
    spot = made("EmbeddedMachine", "m", {}, {"interruptible": True})
    patch = node_patch(owner, node, spot, None, None)
    assert patch is not None
    assert patch["metadata"]["labels"] == {"node.cluster.x-k8s.io/pool": "a", "cluster.x-k8s.io/interruptible": ""}
    annotations = patch["metadata"]["annotations"]
    assert annotations["node.cluster.x-k8s.io/note"] == "x"
    assert annotations["cluster.x-k8s.io/labels-from-machine"] == "node.cluster.x-k8s.io/pool"
    assert annotations["cluster.x-k8s.io/taints-from-machine"] == "always:NoSchedule"
    assert "other" not in annotations
    assert patch["spec"]["taints"] == [
        {"key": "always", "effect": "NoSchedule"},
        {"key": "once", "value": "v", "effect": "NoSchedule"},
    ]
    labels = {**node["metadata"]["labels"], **patch["metadata"]["labels"]}
    node = {"metadata": {"name": "m", "labels": labels, "annotations": annotations}, "spec": patch["spec"]}
    assert node_patch(owner, node, spot, None, None) is None
    changed = machine(labels={"team": "blue"})
    patch = node_patch(changed, node, None, None, None)
    assert patch is not None
    assert patch["metadata"]["labels"] == {"node.cluster.x-k8s.io/pool": None}
    assert patch["metadata"]["annotations"]["node.cluster.x-k8s.io/note"] is None
    assert patch["spec"]["taints"] == [{"key": "once", "value": "v", "effect": "NoSchedule"}]


def test_the_node_of_an_older_revision_is_avoided() -> None:
    revision = "machinedeployment.clusters.x-k8s.io/revision"
    old, wanted = (
        machine_set(1, annotations={revision: "1"}),
        made("MachineDeployment", "d", annotations={revision: "2"}),
    )
    outdated = {"key": "node.cluster.x-k8s.io/outdated-revision", "effect": "PreferNoSchedule"}
    patch = node_patch(machine(), NODE, None, old, wanted)
    assert patch is not None
    assert patch["spec"]["taints"] == [outdated]
    node = {**NODE, "spec": {"taints": [outdated]}}
    current = machine_set(1, annotations={revision: "2"})
    patch = node_patch(machine(), node, None, current, wanted)
    assert patch is not None
    assert patch["spec"]["taints"] is None


PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


def busy(management: Management, hosted: Cluster, node: str) -> None:
    """A Pod on that Node, and a budget that spares no Pod."""
    toleration = {"operator": "Exists"}
    container = {"name": "c", "image": "i"}
    spec = {"nodeName": node, "containers": [container], "tolerations": [toleration]}
    management.eventually(lambda: hosted.get("/api/v1/namespaces/default/serviceaccounts/default").status == 200)
    hosted.post(PODS, {"metadata": {"name": "p", "labels": {"app": "p"}}, "spec": spec}).ok()
    management.eventually(lambda: (hosted.get(f"{PODS}/p")["status"]).get("phase") == "Running")
    selector = {"matchLabels": {"app": "p"}}
    hosted.post(BUDGETS, {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": selector}}).ok()
    management.eventually(lambda: hosted.get(f"{BUDGETS}/b")["status"].get("observedGeneration"))


def test_a_node_is_emptied_before_its_machine_goes(management: Management) -> None:
    management.apply()
    name = management.settled(3)[0]["metadata"]["name"]
    hosted = management.hosted()
    busy(management, hosted, name)
    management.delete("machines", name)

    def held() -> bool:
        found = condition(management.get("machines", name), "Deleting") or {}
        return found.get("reason") == "DrainingNode" and "disruption budget" in found["message"]

    management.eventually(held)
    assert hosted.get(f"/api/v1/nodes/{name}").ok()["spec"]["unschedulable"] is True
    assert "nodeDrainStartTime" in management.get("machines", name)["status"]["deletion"]
    assert name in management.names("embeddedmachines")
    hosted.delete(f"{BUDGETS}/b").ok()
    management.eventually(lambda: name not in management.names("machines"))
    assert hosted.get(f"{PODS}/p").status == 404
    hosted.close()


def test_a_cluster_goes_without_draining(management: Management) -> None:
    management.apply()
    name = management.settled(3)[0]["metadata"]["name"]
    hosted = management.hosted()
    busy(management, hosted, name)
    hosted.close()
    management.delete("clusters", "east")
    management.eventually(lambda: management.root.get(management.path("clusters", "east")).status == 404)
