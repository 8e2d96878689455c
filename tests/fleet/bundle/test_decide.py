"""Bundle decisions: objects, drift, rollout order, conditions."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.fleet.bundle import decide
from shoal.fleet.bundle.decide import BundleRelease, RolloutState, first_difference
from shoal.fleet.bundle.objects import (
    NAMESPACE,
    BundleSpec,
    bundle_objects,
    bundle_revision,
    object_id,
    version_label,
)

Object = dict[str, Any]

PLAN = BundleSpec("far", "1.0.0", kubeconfig="secret words")
NOW = "2026-11-15T12:00:00Z"


def worker(name: str = "far", namespace: str = NAMESPACE, status: Object | None = None, **spec: Any) -> Object:
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "generation": 2}
    return {"metadata": metadata, "spec": {"infrastructure": "kind", **spec}, "status": status or {}}


# --- what it holds ---


def test_what_a_bundle_holds() -> None:
    made = bundle_objects(PLAN)
    assert [obj["kind"] for obj in made] == [
        "Namespace",
        "ServiceAccount",
        "NetworkPolicy",
        "PersistentVolumeClaim",
        "Secret",
        "Deployment",
    ], "no role: a worker asks nothing of the cluster it runs in; no Service: it dials out"
    for obj in made:
        labels = obj["metadata"]["labels"]
        assert (labels["app.kubernetes.io/managed-by"], labels["shoal.dev/worker"]) == ("shoal", "far")
        assert labels["shoal.dev/bundle-version"] == "1.0.0"
    namespace, account, policy, claim, secret, deployment = made
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert account["automountServiceAccountToken"] is False
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    assert base64.b64decode(secret["data"]["kubeconfig"]) == b"secret words"
    pod = deployment["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["volumes"][0]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    (container,) = pod["containers"]
    assert container["image"] == "ghcr.io/shoal/shoal:1.0.0"
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert {container[probe]["httpGet"]["scheme"] for probe in ("livenessProbe", "readinessProbe")} == {"HTTPS"}


def test_a_revision_follows_all_but_the_secret() -> None:
    one = bundle_revision(bundle_objects(PLAN))
    assert bundle_revision(bundle_objects(BundleSpec("far", "1.0.0", kubeconfig="others"))) == one
    assert bundle_revision(bundle_objects(BundleSpec("far", "1.0.0", "else/image:1"))) != one
    assert bundle_revision(bundle_objects(BundleSpec("far", "1.0.1"))) != one
    assert "secret words" not in repr(PLAN)


def test_a_version_becomes_a_label() -> None:
    assert version_label("1.0.0+local.3") == "1.0.0_local.3"


# --- what differs ---


@pytest.mark.parametrize(
    ("wanted", "found", "where"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, ""),
        ({"a": 1}, {"a": 2}, "a"),
        ({"a": {"b": 1}}, {"a": {}}, "a.b"),
        ({"a": {"b": 1}}, {}, "a"),
        ({"a": {}}, {}, ""),
        ({"a": []}, {}, ""),
        ({"a": []}, {"a": [{}]}, "a"),
        ({"a": [1, 2]}, {"a": [1, 2]}, ""),
        ({"a": [1, 2]}, {"a": [2, 1]}, "a[0]"),
        ({"a": [1]}, {"a": [1, 2]}, "a"),
        ({"a": [{"name": "x", "v": 1}]}, {"a": [{"name": "s"}, {"name": "x", "v": 1, "w": 2}]}, ""),
        ({"a": [{"name": "x", "v": 1}]}, {"a": [{"name": "x", "v": 2}]}, "a[x].v"),
        ({"a": [{"name": "x"}]}, {"a": [{"name": "s"}]}, "a[x]"),
        ({"a": False}, {}, "a"),
        ({"a": "1"}, {"a": 1}, "a"),
    ],
)
def test_differences(wanted: Object, found: Object, where: str) -> None:
    assert first_difference(wanted, found) == where


trees = st.recursive(
    st.integers() | st.text() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


@given(st.dictionaries(st.text(max_size=3), trees, max_size=4))
def test_nothing_differs_from_itself(tree: Object) -> None:
    assert first_difference(tree, tree) == ""


def stored(version: str = "1.0.0", name: str = "far") -> dict[Any, Object]:
    """As a cluster holds it, with what it adds."""
    found = {}
    for obj in bundle_objects(BundleSpec(name, version, kubeconfig="secret words")):
        kept = {**obj, "apiVersion": None, "status": {"phase": "Active"}}
        found[object_id(obj)] = {**kept, "metadata": {**obj["metadata"], "uid": "u", "resourceVersion": "7"}}
    return found


def test_a_bundle_that_is_there_is_left_alone() -> None:
    changes = decide.diff_bundle(bundle_objects(PLAN), stored(), "1.0.0")
    assert (changes.apply, changes.prune, changes.deleting) == ([], [], [])


def test_what_is_not_there_or_differs_is_applied_in_order() -> None:
    found = stored()
    del found["ServiceAccount", NAMESPACE, "shoal-worker-far"]
    found["Deployment", NAMESPACE, "shoal-worker-far"]["spec"] = {"replicas": 3}
    changes = decide.diff_bundle(bundle_objects(PLAN), found, "1.0.0")
    assert [(obj["kind"], where) for obj, where in changes.apply] == [
        ("ServiceAccount", ""),
        ("Deployment", "spec.replicas"),
    ]


def test_an_older_version_differs_everywhere() -> None:
    changes = decide.diff_bundle(bundle_objects(PLAN), stored("0.9"), "1.0.0")
    assert {where for _, where in changes.apply} == {"metadata.labels.shoal.dev/bundle-version"}
    assert len(changes.apply) == 6


def test_a_claim_keeps_what_it_has() -> None:
    found = stored("0.9")
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "40Gi"}}, "volumeName": "v"}
    found["PersistentVolumeClaim", NAMESPACE, "shoal-worker-far"]["spec"] = spec
    (claim,) = [
        obj
        for obj, _ in decide.diff_bundle(bundle_objects(PLAN), found, "1.0.0").apply
        if obj["kind"] == "PersistentVolumeClaim"
    ]
    assert claim["spec"]["resources"]["requests"]["storage"] == "40Gi"
    assert "volumeName" not in claim["spec"]


def extra(kind: str, version: str | None, **metadata: Any) -> Object:
    labels = {"shoal.dev/bundle-version": version} if version is not None else {}
    return {"kind": kind, "metadata": {"name": "extra", "namespace": NAMESPACE, "labels": labels, **metadata}}


@pytest.mark.parametrize(
    ("obj", "pruned"),
    [
        (extra("ConfigMap", "0.9"), True),
        (extra("Role", "2.0"), True),
        (extra("ConfigMap", "1.0.0"), False),
        (extra("ConfigMap", None), False),
        (extra("ConfigMap", "0.9", deletionTimestamp=NOW), False),
        (extra("PersistentVolumeClaim", "0.9"), False),
        (extra("Namespace", "0.9"), False),
    ],
)
def test_what_is_pruned(obj: Object, pruned: bool) -> None:
    changes = decide.diff_bundle(bundle_objects(PLAN), {**stored(), object_id(obj): obj}, "1.0.0")
    assert changes.prune == ([obj] if pruned else [])


def test_what_is_going_is_waited_for() -> None:
    found = stored()
    found["Secret", NAMESPACE, "shoal-worker-far"]["metadata"]["deletionTimestamp"] = NOW
    changes = decide.diff_bundle(bundle_objects(PLAN), found, "1.0.0")
    assert [obj["kind"] for obj in changes.deleting] == ["Secret"]
    assert changes.apply == []


# --- whose turn it is ---

OLD, NEW = BundleRelease("1.0.0", "image:1"), BundleRelease("2.0.0", "image:2")
PATCHED = BundleRelease("2.0.0", "image:3")


@pytest.mark.parametrize(
    ("others", "mine", "first"),
    [
        ([], RolloutState("b", OLD, True, True), ""),
        ([], RolloutState("b", NEW, False, True), ""),
        ([RolloutState("a", OLD, True, True)], RolloutState("b", OLD, True, True), "a"),
        ([RolloutState("a", PATCHED, True, True)], RolloutState("b", OLD, True, True), "a"),
        ([RolloutState("c", OLD, True, True)], RolloutState("b", OLD, True, True), ""),
        ([RolloutState("a", OLD, True, False)], RolloutState("b", OLD, True, True), ""),
        ([RolloutState("a", NEW, True, True)], RolloutState("b", OLD, True, True), ""),
        ([RolloutState("c", NEW, False, True)], RolloutState("b", OLD, True, True), "c"),
        ([RolloutState("c", NEW, False, False)], RolloutState("b", OLD, True, True), "c"),
        ([RolloutState("a", OLD, True, True)], RolloutState("b", None, True, True), ""),
        ([RolloutState("a", None, True, True)], RolloutState("b", OLD, True, True), ""),
        ([RolloutState("a", OLD, True, True)], RolloutState("b", OLD, True, False), "a"),
    ],
)
def test_turns(others: list[RolloutState], mine: RolloutState, first: str) -> None:
    assert decide.rollout_blocker("b", [*others, mine], NEW) == first


standings = st.lists(
    st.builds(RolloutState, st.sampled_from("abcde"), st.sampled_from([None, OLD, NEW]), st.booleans(), st.booleans()),
    unique_by=lambda one: one.name,
    max_size=5,
)


@given(standings)
def test_no_two_are_updated_at_once(everybody: list[RolloutState]) -> None:
    waiting = [one for one in everybody if one.release == OLD]
    may = [one for one in waiting if not decide.rollout_blocker(one.name, everybody, NEW)]
    assert len([one for one in may if one.is_reachable]) <= 1
    assert not (may and any(one.release == NEW and not one.is_settled for one in everybody))
    assert may or not waiting or any(one.release == NEW and not one.is_settled for one in everybody), "it goes on"


@pytest.mark.parametrize(
    ("bundle_", "settled"),
    [
        ({}, True),
        ({"version": "1", "image": "i", "revision": "r"}, True),
        ({"version": "1", "image": "i", "revision": "r", "availableRevision": "r"}, True),
        ({"version": "1", "image": "i", "revision": "r", "availableRevision": "q"}, False),
    ],
)
def test_standing(bundle_: Object, settled: bool) -> None:
    found = decide.rollout_state(worker(status={"bundle": bundle_}))
    assert found == RolloutState("far", BundleRelease("1", "i") if bundle_ else None, settled, True)


# --- what is said ---


@pytest.mark.parametrize(
    ("status", "why"),
    [
        ({}, "last change is not observed yet"),
        ({"observedGeneration": 3}, "pod is not available yet"),
        ({"observedGeneration": 3, "replicas": 1, "updatedReplicas": 1}, "pod is not available yet"),
        ({"observedGeneration": 3, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}, ""),
        (
            {"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1},
            "last change is not observed yet",
        ),
        (
            {
                "observedGeneration": 3,
                "conditions": [{"type": "Progressing", "status": "False", "message": "has timed out progressing"}],
            },
            "has timed out progressing",
        ),
        (
            {
                "observedGeneration": 3,
                "conditions": [{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}],
            },
            "exceeded quota",
        ),
    ],
)
def test_why_a_worker_does_not_run(status: Object, why: str) -> None:
    assert decide.unavailable_reason({"metadata": {"generation": 3}, "status": status}) == why


@pytest.mark.parametrize(
    ("url", "given", "refused"),
    [
        ("https://127.0.0.1:6443", "", True),
        ("https://localhost:6443", "", True),
        ("https://[::1]:6443", "", True),
        ("https://127.0.0.1:6443", "https://127.0.0.1:1", False),
        ("https://10.0.0.1:6443", "", False),
        ("https://hub.example:6443", "", False),
    ],
)
def test_a_hub_that_no_cluster_reaches(url: str, given: str, refused: bool) -> None:
    obj = worker(hubAddress=given)
    found = decide.hub_unreachable(obj, url)
    assert (found is not None) == refused
    if found is not None:
        assert (found.status, found.reason) == ("False", "HubNotReachable")
        assert "--advertise-address HOST" in found.message
    assert decide.hub_address(obj, url) == (given or url)


@pytest.mark.parametrize(
    ("obj", "reason"),
    [
        (worker(), ""),
        (worker(provides=["embedded"]), ""),
        (worker(provides=["embedded", "kind"]), "InfrastructureNotProvided"),
        (worker(namespace="default"), "WrongNamespace"),
        (
            worker(infrastructure="process", kubeconfigSecretRef={"namespace": "a", "name": "b"}),
            "InfrastructureChanged",
        ),
    ],
)
def test_what_nothing_is_done_for(obj: Object, reason: str) -> None:
    found = decide.reject_reason(obj)
    assert (found.reason if found is not None else "") == reason


def test_a_worker_that_is_no_cluster_is_nothing_to_it() -> None:
    assert not decide.is_bundle_worker(worker(infrastructure="process"))
    held = worker(infrastructure="process")
    held["metadata"]["finalizers"] = [decide.FINALIZER]
    assert decide.is_bundle_worker(held)


@pytest.mark.parametrize(
    ("version", "minor"), [("v1.35.2", "1.35"), ("", "1.36"), ("v9.99.0", "1.36"), ("nonsense", "1.36")]
)
def test_the_version_of_a_kind_cluster(version: str, minor: str) -> None:
    spec = decide.kind_cluster(worker(version=version))["spec"]
    assert (spec["kubernetesVersion"], spec["nodes"]) == (minor, [{"role": "control-plane"}])


def test_a_status_is_written_only_when_it_says_something_new() -> None:
    obj = worker(status={"phase": "Pending"})
    said = decide.BundleCondition("True", "Applied", "fine")
    status = decide.bundle_status(obj, said, {"version": "1"}, NOW)
    assert status is not None
    assert status["phase"] == "Pending"
    assert status["conditions"][0]["observedGeneration"] == 2
    assert decide.bundle_status({**obj, "status": status}, said, {"version": "1"}, "later") is None
    assert decide.bundle_status({**obj, "status": status}, said, None, "later") is None


def test_a_bundle_keeps_the_time_it_was_begun() -> None:
    first = decide.bundle_state(worker(), OLD, "r", "c", NOW)
    again = decide.bundle_state(worker(status={"bundle": {**first, "availableRevision": "r"}}), OLD, "r", "c", "later")
    assert again == {**first, "availableRevision": "r"}
    assert decide.bundle_state(worker(status={"bundle": first}), NEW, "s", "c", "later")["time"] == "later"
