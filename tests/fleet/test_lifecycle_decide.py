"""Lifecycle decisions of a ManagedCluster: phases, errors, node pools, upgrades, and fields that others own."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.fleet.worker.hosting.decide import HostingChanges, plan_changes
from shoal.fleet.worker.hosting.objects import APPLIED_ANNOTATION, cluster_object, member_objects, template_name
from shoal.fleet.worker.hosting.upgrade import TargetVersions, target_versions
from shoal.fleet.worker.reporter.decide import HostedState, cluster_status, failed_status
from shoal.fleet.worker.settings import WorkerSettings
from shoal.kinds.fleet import infrav1, nodepools
from shoal.objects import mergepatch

Object = dict[str, Any]
NOW, LATER = "2026-11-15T12:00:00Z", "2026-11-15T13:00:00Z"
PRICE = "cluster.x-k8s.io/machine-current-price"
CAPACITY = "capacity.cluster-autoscaler.kubernetes.io/"
GPU: Object = {
    "name": "gpu",
    "nodes": 2,
    "size": "large",
    "zone": "b",
    "labels": {"team": "ml"},
    "taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}],
}
SPEC: Object = {"nodes": 1, "infrastructure": "embedded", "version": "v1.35.0", "nodePools": [GPU]}


# --- phases ---


@pytest.mark.parametrize(
    ("phase", "conditions", "changes"),
    [
        ("Pending", {}, {"assignedWorker": ""}),
        ("Pending", {"Scheduled": "False"}, {"assignedWorker": ""}),
        ("Scheduled", {"Scheduled": "True"}, {}),
        ("Provisioning", {"Ready": "False"}, {}),
        ("Failed", {"Ready": ("False", "InfrastructureNotSupported")}, {}),
        ("Running", {"Ready": "True"}, {}),
        ("Running", {"Ready": "True", "WorkerReady": "True", "Upgraded": "True"}, {}),
        ("Upgrading", {"Ready": "True", "Upgraded": ("False", "NodesUpgrading")}, {}),
        ("Running", {"Ready": "True", "Upgraded": ("False", "VersionRefused")}, {}),
        ("Provisioning", {"Ready": "False", "Upgraded": ("False", "NodesUpgrading")}, {}),
        ("Unknown", {"Ready": "True", "WorkerReady": "Unknown"}, {}),
        ("Unknown", {"WorkerReady": "Unknown"}, {}),
    ],
)
def test_the_phase_is_what_the_conditions_come_to(phase: str, conditions: Object, changes: Object) -> None:
    said = [
        {"type": type_, "status": value if isinstance(value, str) else value[0], "reason": value[1]}
        for type_, value in conditions.items()
    ]
    managed: Object = {"metadata": {}, "status": {"assignedWorker": "w", "conditions": said, **changes}}
    assert infrav1.phase_of(managed) == phase
    assert infrav1.phase_of({**managed, "metadata": {"deletionTimestamp": NOW}}) == "Terminating"


# --- errors ---


def test_errors_are_added_once_and_the_oldest_go() -> None:
    managed: Object = {"metadata": {}, "status": {}}
    for number in range(12):
        for _ in range(2):
            errors = infrav1.append_error(managed, "Broken", f"no {number}", NOW)
            managed = {**managed, "status": {"errors": errors}}
    assert [error["message"] for error in errors] == [f"no {number}" for number in range(2, 12)]
    assert infrav1.append_error(managed, "Broken", "no 5", LATER) == errors, "one that is there keeps its time"


# --- hosting ---


def copy(**spec: Any) -> Object:
    return {"metadata": {"name": "east", "namespace": "ns", "uid": "own"}, "spec": {**SPEC, **spec}}


def whole(given: Object, had: str = "v1.35.0") -> dict[tuple[str, str], Object]:
    """What there is once everything was made as asked for."""
    owner = {**cluster_object(given), "metadata": {**cluster_object(given)["metadata"], "uid": "c"}}
    found: dict[tuple[str, str], Object] = {("clusters", "east"): owner}
    for plural, obj in member_objects(given, owner, TargetVersions(had, had)):
        name = obj["metadata"]["name"]
        found[plural, name] = {**obj, "metadata": {**obj["metadata"], "uid": f"{plural}/{name}"}}
    found["embeddedclusters", "east"]["status"] = {"version": had, "initialization": {"provisioned": True}}
    return found


def changed(
    known: dict[tuple[str, str], Object], plural: str, name: str, patch: Object
) -> dict[tuple[str, str], Object]:
    return {**known, (plural, name): mergepatch.apply(known[plural, name], patch)}


def carried_out(known: dict[tuple[str, str], Object], found: HostingChanges) -> dict[tuple[str, str], Object]:
    after = dict(known)
    for plural, obj in found.create:
        after[plural, obj["metadata"]["name"]] = {**obj, "metadata": {**obj["metadata"], "uid": "new"}}
    for plural, name, patch in found.patch:
        after = changed(after, plural, name, patch)
    for plural, name, _ in found.delete:
        del after[plural, name]
    return after


def pool(nodes: Object) -> nodepools.ClusterNodePool:
    return nodepools.declared_pools({"nodePools": [nodes]})[1]


def test_a_pool_is_a_machine_deployment_with_machines_as_asked_for() -> None:
    known = whole(copy())
    deployment = known["machinedeployments", "east-gpu"]
    assert deployment["spec"]["replicas"] == 2
    assert deployment["metadata"]["labels"] == {
        "cluster.x-k8s.io/cluster-name": "east",
        "shoal.dev/node-pool": "gpu",
    }
    template = known["embeddedmachinetemplates", deployment["spec"]["template"]["spec"]["infrastructureRef"]["name"]]
    machine = template["spec"]["template"]["spec"]
    assert (machine["instanceType"], machine["zone"], machine["labels"]) == ("large", "b", {"team": "ml"})
    assert machine["taints"] == GPU["taints"]
    annotations = deployment["metadata"]["annotations"]
    assert annotations[f"{CAPACITY}cpu"] == "16"
    assert annotations[f"{CAPACITY}taints"] == "gpu=yes:NoSchedule"
    assert {"team=ml", "topology.kubernetes.io/zone=b"} <= set(annotations[f"{CAPACITY}labels"].split(","))
    assert plan_changes(copy(), known, ("embedded",)) == HostingChanges()


def test_the_scheduler_counts_the_nodes_of_all_pools() -> None:
    assert [(size.name, nodes) for size, nodes in infrav1.requested_machines(copy())] == [("default", 1), ("large", 2)]


def test_a_pool_that_is_taken_out_goes_and_nobody_elses_does() -> None:
    known = whole(copy())
    theirs = {"metadata": {"name": "east-own", "uid": "x", "labels": {"cluster.x-k8s.io/cluster-name": "east"}}}
    known["machinedeployments", "east-own"] = theirs
    found = plan_changes(copy(nodePools=[]), known, ("embedded",))
    assert found.delete == [("machinedeployments", "east-gpu", "machinedeployments/east-gpu")]
    after = carried_out(known, found)
    template = template_name("east", pool(GPU))
    assert [one[:2] for one in plan_changes(copy(nodePools=[]), after, ("embedded",)).delete] == [
        ("embeddedmachinetemplates", template)
    ], "its template goes after it"


def test_a_pool_of_other_machines_gets_another_template_and_the_old_one_stays_while_it_rolls_out() -> None:
    bigger = {**GPU, "size": "medium"}
    old, new = template_name("east", pool(GPU)), template_name("east", pool(bigger))
    found = plan_changes(copy(nodePools=[bigger]), whole(copy()), ("embedded",))
    assert [(plural, obj["metadata"]["name"]) for plural, obj in found.create] == [("embeddedmachinetemplates", new)]
    assert not found.delete
    after = carried_out(whole(copy()), found)
    deployment = after["machinedeployments", "east-gpu"]
    assert deployment["spec"]["template"]["spec"]["infrastructureRef"]["name"] == new
    assert deployment["metadata"]["annotations"][f"{CAPACITY}cpu"] == "4"
    rolling = {"metadata": {"generation": 2}, "status": {"observedGeneration": 1, "replicas": 2, "upToDateReplicas": 2}}
    for status in ({}, {"observedGeneration": 2, "upToDateReplicas": 1}):
        after = changed(after, "machinedeployments", "east-gpu", mergepatch.apply(rolling, {"status": status}))
        assert plan_changes(copy(nodePools=[bigger]), after, ("embedded",)) == HostingChanges()
    after = changed(after, "machinedeployments", "east-gpu", {"status": {"upToDateReplicas": 2}})
    assert [one[1] for one in plan_changes(copy(nodePools=[bigger]), after, ("embedded",)).delete] == [old]


def test_what_people_set_on_a_machine_deployment_is_theirs() -> None:
    theirs: Object = {
        PRICE: "9.99",
        "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "5",
        f"{CAPACITY}maxPods": None,
    }
    known = changed(whole(copy()), "machinedeployments", "east-gpu", {"metadata": {"annotations": theirs}})
    assert plan_changes(copy(), known, ("embedded",)) == HostingChanges()
    smaller = copy(nodePools=[{**GPU, "size": "small", "taints": []}])
    after = carried_out(known, plan_changes(smaller, known, ("embedded",)))
    annotations = after["machinedeployments", "east-gpu"]["metadata"]["annotations"]
    assert annotations[PRICE] == "9.99"
    assert annotations[f"{CAPACITY}cpu"] == "2", "what nobody has changed follows"
    assert f"{CAPACITY}maxPods" not in annotations
    assert f"{CAPACITY}taints" not in annotations
    again = plan_changes(smaller, after, ("embedded",))
    assert not again.create
    assert not again.patch


@pytest.mark.parametrize("note", [None, "nonsense", "[]"])
def test_without_a_note_what_is_there_is_somebody_elses(note: str | None) -> None:
    patch = {"metadata": {"annotations": {APPLIED_ANNOTATION: note, PRICE: "9.99", f"{CAPACITY}cpu": None}}}
    known = changed(whole(copy()), "machinedeployments", "east-default", patch)
    after = carried_out(known, plan_changes(copy(), known, ("embedded",)))
    annotations = after["machinedeployments", "east-default"]["metadata"]["annotations"]
    assert (annotations[PRICE], annotations[f"{CAPACITY}cpu"]) == ("9.99", "4")


def test_the_number_of_machines_is_an_autoscalers_that_was_told_its_limits() -> None:
    limits = {f"cluster.x-k8s.io/cluster-api-autoscaler-node-group-{end}-size": "3" for end in ("min", "max")}
    known = changed(whole(copy()), "machinedeployments", "east-gpu", {"spec": {"replicas": 3}})
    assert [patch["spec"] for _, _, patch in plan_changes(copy(), known, ("embedded",)).patch] == [{"replicas": 2}]
    known = changed(known, "machinedeployments", "east-gpu", {"metadata": {"annotations": limits}})
    assert plan_changes(copy(), known, ("embedded",)) == HostingChanges()


# --- upgrades ---


def control_plane(asked: str, runs: str = "", up: bool = True) -> Object:
    status: Object = {"initialization": {"provisioned": True}, "version": runs} if up else {}
    return {"metadata": {"name": "east"}, "spec": {"version": asked} if asked else {}, "status": status}


@pytest.mark.parametrize(
    ("wanted", "existing", "expected"),
    [
        ("v1.35.0", None, TargetVersions("v1.35.0", "v1.35.0")),
        ("", None, TargetVersions("", "")),
        ("v1.35.0", control_plane("v1.35.0", up=False), TargetVersions("v1.35.0", "v1.35.0")),
        ("v1.35.0", control_plane("v1.35.0", "v1.35.0"), TargetVersions("v1.35.0", "v1.35.0")),
        ("v1.36.4", control_plane("v1.35.0", "v1.35.0"), TargetVersions("v1.36.4", "v1.35.0")),
        ("v1.36.4", control_plane("v1.36.4", "v1.35.0"), TargetVersions("v1.36.4", "v1.35.0")),
        ("v1.36.4", control_plane("v1.36.4", "v1.36.4"), TargetVersions("v1.36.4", "v1.36.4")),
        ("", control_plane("v1.35.0", "v1.35.0"), TargetVersions("v1.35.0", "v1.35.0")),
        ("v1.36.4", control_plane("", ""), TargetVersions("v1.36.4", "")),
    ],
)
def test_the_control_plane_goes_first(wanted: str, existing: Object | None, expected: TargetVersions) -> None:
    assert target_versions(wanted, existing) == expected


@pytest.mark.parametrize(
    ("wanted", "existing", "why"),
    [
        ("v1.34.0", control_plane("v1.35.0", "v1.35.0"), "a cluster cannot be downgraded from v1.35.0 to v1.34.0"),
        ("v1.34.0", control_plane("", ""), "a cluster cannot be downgraded from v1.36.4 to v1.34.0"),
        ("v1.99.0", control_plane("v1.35.0", "v1.35.0"), 'Unsupported value: "v1.99.0"'),
        ("v1.99.0", control_plane("", "", up=False), 'Unsupported value: "v1.99.0"'),
    ],
)
def test_what_cannot_be_had_is_refused_and_changes_nothing(wanted: str, existing: Object, why: str) -> None:
    found = target_versions(wanted, existing)
    assert why in found.version_error
    kept = existing["spec"].get("version", "")
    assert (found.control_plane, found.nodes) == (kept, kept)
    if kept:
        assert plan_changes(copy(version=wanted), whole(copy()), ("embedded",)) == HostingChanges()


def test_the_nodes_follow_when_the_control_plane_runs_the_version() -> None:
    newer, known = copy(version="v1.36.4"), whole(copy())
    first = plan_changes(newer, known, ("embedded",))
    assert first.patch == [("embeddedclusters", "east", {"spec": {"version": "v1.36.4"}})]
    known = carried_out(known, first)
    assert plan_changes(newer, known, ("embedded",)) == HostingChanges(), "it is not up yet"
    known = changed(known, "embeddedclusters", "east", {"status": {"version": "v1.36.4"}})
    second = plan_changes(newer, known, ("embedded",))
    template = {"spec": {"template": {"spec": {"version": "v1.36.4"}}}}
    assert {name: patch for _, name, patch in second.patch} == {
        f"east-{name}": template for name in ("default", "gpu", "small", "medium", "large")
    }


# --- the reporter ---

WORKER = WorkerSettings("w", version="v1.36.4")
UP: Object = {"metadata": {"name": "east"}, "status": {"phase": "Provisioned"}}


def managed(wanted: str = "v1.36.4", /, **status: Any) -> Object:
    metadata = {"name": "east", "generation": 3}
    return {"metadata": metadata, "spec": {**SPEC, "version": wanted}, "status": {"assignedWorker": "w", **status}}


def machines(**counts: int) -> Object:
    said = [{"version": name.replace("_", "."), "replicas": number} for name, number in counts.items()]
    return {"metadata": {}, "status": {"versions": said, "readyReplicas": sum(counts.values())}}


@pytest.mark.parametrize(
    ("runs", "nodes", "phase", "reason", "message"),
    [
        (
            "v1.35.0",
            {"v1_35_0": 3},
            "Upgrading",
            "ControlPlaneUpgrading",
            "the control plane is being upgraded to v1.36.4",
        ),
        ("v1.36.4", {"v1_35_0": 2, "v1_36_4": 1}, "Upgrading", "NodesUpgrading", "1 of 3 nodes run v1.36.4"),
        ("v1.36.4", {"v1_36_4": 3}, "Running", "UpToDate", "control plane and nodes run the requested version"),
    ],
)
def test_an_upgrade_is_told(runs: str, nodes: dict[str, int], phase: str, reason: str, message: str) -> None:
    hosted = HostedState(UP, "config", control_plane("v1.36.4", runs), {"gpu": machines(**nodes)})
    status = cluster_status(managed(), hosted, WORKER, NOW)
    said = next(one for one in status["conditions"] if one["type"] == "Upgraded")
    assert (status["phase"], status["version"], said["reason"], said["message"]) == (phase, runs, reason, message)
    assert said["observedGeneration"] == 3


def test_a_refused_version_is_an_error_and_it_runs_on() -> None:
    hosted = HostedState(UP, "config", control_plane("v1.35.0", "v1.35.0"), {"gpu": machines(v1_35_0=2)})
    status = cluster_status(managed("v1.34.0"), hosted, WORKER, NOW)
    assert (status["phase"], status["version"]) == ("Running", "v1.35.0")
    (error,) = status["errors"]
    assert error["reason"] == "VersionRefused"
    assert "cannot be downgraded from v1.35.0 to v1.34.0" in error["message"]
    assert cluster_status(managed("v1.34.0", **status), hosted, WORKER, LATER) == status
    assert "errors" not in cluster_status(managed("v1.35.0", **status), hosted, WORKER, LATER)


def test_one_that_is_being_made_is_not_being_upgraded() -> None:
    hosted = HostedState(UP, "config", control_plane("v1.36.4", up=False))
    assert cluster_status(managed(), hosted, WORKER, NOW)["phase"] == "Running"


def test_errors_stay_until_it_runs_well() -> None:
    first = failed_status(managed(), "SecretNameTaken", "taken", NOW)
    assert first["phase"] == "Failed"
    second = cluster_status(managed(**first), HostedState(), WORKER, LATER)
    assert second["phase"] == "Provisioning"
    assert second["errors"] == first["errors"]
    assert "errors" not in cluster_status(managed(**second), HostedState(UP, "config"), WORKER, LATER)


def test_what_the_provider_cannot_do_is_a_failure() -> None:
    taken = {"type": "Ready", "status": "False", "reason": "NameTaken", "message": "LogicalCluster ns.east exists"}
    hosted = HostedState(control_plane={"metadata": {}, "status": {"conditions": [taken]}})
    status = cluster_status(managed(), hosted, WORKER, NOW)
    assert status["phase"] == "Failed"
    assert status["errors"] == [{"time": NOW, "reason": "NameTaken", "message": "LogicalCluster ns.east exists"}]


def test_the_nodes_of_each_pool_are_counted() -> None:
    hosted = HostedState(
        UP, "c", pools={"gpu": machines(v1_36_4=1), "default": machines(v1_36_4=4), "large": machines(v1_36_4=7)}
    )
    status = cluster_status(managed(), hosted, WORKER, NOW)
    assert status["nodePools"] == [
        {"name": "default", "nodes": 1, "readyNodes": 4},
        {"name": "gpu", "nodes": 2, "readyNodes": 1},
    ]
    assert status["nodes"] == 12
    said = next(one for one in status["conditions"] if one["type"] == "NodesReady")
    assert said["message"] == "2 of 3 nodes are ready"


@pytest.mark.parametrize("field", ["limits", "provisioner"])
def test_an_optional_field_of_the_hosted_cluster_follows_the_spec(field: str) -> None:
    first: Object = {"a": 1, "inner": {"x": True, "y": True}}
    known = whole(copy(**{field: first}))
    assert known["embeddedclusters", "east"]["spec"][field] == first
    wanted: Object
    for wanted in ({"a": 2, "inner": {"y": True}}, {"b": 1}, {"b": 1, "inner": {"x": False}}, {}):
        given = copy(**{field: wanted})
        known = carried_out(known, plan_changes(given, known, ("embedded",)))
        assert known["embeddedclusters", "east"]["spec"].get(field, {}) == wanted
        assert plan_changes(given, known, ("embedded",)) == HostingChanges()
