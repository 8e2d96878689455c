"""Tests of the StatefulSet decision, one step at a time, from tables."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.controlplane.statefulsets.decide import StatefulSetDecision, StatefulSetSnapshot, decide, revisions_to_delete
from shoal.controlplane.statefulsets.identity import filter_members, parent_and_ordinal
from shoal.kinds.apps.revision import find_equal_revision, new_revision, revision_hash, sort_revisions
from shoal.objects.ownership import OwnershipClaims, controller_reference

Object = dict[str, Any]

NOW = 1_700_000_000.0
EARLIER, JUST_NOW = "2023-11-14T22:00:00Z", "2023-11-14T22:13:15Z"
OLD: Object = {"metadata": {"name": "web-old"}, "data": {"spec": {"template": {"spec": {"containers": []}}}}}
NEW: Object = {"metadata": {"name": "web-new"}}


def stateful_set(replicas: int = 3, **spec: Any) -> Object:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    return {
        "metadata": {"name": "web", "namespace": "default", "uid": "s", "generation": 1},
        "spec": {
            "replicas": replicas,
            "serviceName": "svc",
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}},
            "podManagementPolicy": "OrderedReady",
            "updateStrategy": rolling,
            **spec,
        },
        "status": {},
    }


def pod(ordinal: int, state: str = "ready", revision: str = "web-new", **metadata: Any) -> Object:
    """`state`: ready, new (ready a moment ago), running, pending, ending (ready, being deleted) or a phase."""
    name = f"web-{ordinal}"
    labels = {"statefulset.kubernetes.io/pod-name": name, "controller-revision-hash": revision}
    phase = {"pending": "Pending", "Failed": "Failed", "Succeeded": "Succeeded"}.get(state, "Running")
    since = JUST_NOW if state == "new" else EARLIER
    ready = [{"type": "Ready", "status": "True", "lastTransitionTime": since}]
    made: Object = {
        "metadata": {"name": name, "uid": f"{name}-uid", "labels": labels, **metadata},
        "spec": {"containers": []},
        "status": {"phase": phase, "conditions": ready if state in ("ready", "new", "ending") else []},
    }
    if state == "ending":
        made["metadata"]["deletionTimestamp"] = JUST_NOW
    return made


def step(owner: Object, pods: list[Object], claims: dict[str, Object] | None = None) -> StatefulSetDecision:
    return decide(StatefulSetSnapshot(owner, pods, claims or {}, OLD, NEW, 0, NOW))


def created_and_deleted(decision: StatefulSetDecision) -> tuple[list[str], list[str]]:
    made = [one["metadata"]["name"].removeprefix("web-") for one in decision.create]
    return made, [one["metadata"]["name"].removeprefix("web-") for one in decision.delete]


@pytest.mark.parametrize(
    ("pods", "create", "delete"),
    [
        # Three replicas, in order.
        ([], ["0"], []),
        ([pod(0, "pending")], [], []),
        ([pod(0, "running")], [], []),
        ([pod(0)], ["1"], []),
        ([pod(0), pod(2)], ["1"], []),
        ([pod(0, "ending"), pod(1), pod(2)], [], []),
        ([pod(0), pod(1), pod(2)], [], []),
        ([pod(0, "Failed"), pod(1)], [], ["0"]),
        ([pod(0, "Succeeded"), pod(1)], [], ["0"]),
        # Surplus, highest first and one by one.
        ([pod(0), pod(1), pod(2), pod(3), pod(4)], [], ["4"]),
        ([pod(0), pod(1), pod(2), pod(3), pod(4, "ending")], [], []),
        ([pod(0), pod(1), pod(2), pod(3, "running"), pod(4)], [], ["4"]),
        ([pod(0), pod(1), pod(2), pod(3), pod(4, "running")], [], ["4"]),
        ([pod(0), pod(1), pod(2), pod(3, "running"), pod(4, "running")], [], []),
        ([pod(0), pod(1, "running"), pod(2), pod(3)], [], []),
        # Names without an ordinal of the set are nobody's business.
        ([pod(0), pod(1), {**pod(9), "metadata": {"name": "web", "labels": {}}}], ["2"], []),
    ],
)
def test_in_order(pods: list[Object], create: list[str], delete: list[str]) -> None:
    assert created_and_deleted(step(stateful_set(), pods)) == (create, delete)


@pytest.mark.parametrize(
    ("pods", "create", "delete"),
    [
        ([], ["0", "1", "2"], []),
        ([pod(1, "pending")], ["0", "2"], []),
        ([pod(0, "Failed"), pod(1, "ending")], ["2"], ["0"]),
        ([pod(0, "pending"), pod(1), pod(2), pod(3), pod(4, "pending")], [], ["4", "3"]),
    ],
)
def test_in_parallel(pods: list[Object], create: list[str], delete: list[str]) -> None:
    assert created_and_deleted(step(stateful_set(podManagementPolicy="Parallel"), pods)) == (create, delete)


def rolling(**bounds: object) -> Object:
    return {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": bounds}}


@pytest.mark.parametrize(
    ("spec", "states", "delete"),
    [
        # States of pods 0, 1, 2: `-` old, `+` new, `~` new and not ready, `!` old and not ready, `x` being deleted.
        (rolling(partition=0), "---", ["2"]),
        (rolling(partition=0), "--x", []),
        (rolling(partition=0), "--~", []),
        (rolling(partition=0), "--+", ["1"]),
        (rolling(partition=0), "+++", []),
        (rolling(partition=0), "-!-", []),
        (rolling(partition=2), "---", ["2"]),
        (rolling(partition=2), "--+", []),
        (rolling(partition=5), "---", []),
        (rolling(maxUnavailable=2), "---", ["2", "1"]),
        (rolling(maxUnavailable="70%"), "---", ["2", "1"]),
        (rolling(maxUnavailable="10%"), "---", ["2"]),
        (rolling(partition=2, maxUnavailable=2), "---", ["2"]),
        ({"updateStrategy": {"type": "RollingUpdate"}}, "---", ["2"]),
        ({"updateStrategy": {"type": "OnDelete"}}, "---", []),
        # A pod that does not work is in the way of an ordered set, and not of a parallel one.
        ({**rolling(partition=0), "podManagementPolicy": "Parallel"}, "--!", ["2"]),
        ({**rolling(partition=0), "podManagementPolicy": "Parallel"}, "-!+", ["1"]),
        ({**rolling(partition=0), "podManagementPolicy": "Parallel"}, "-!~", []),
        ({**rolling(maxUnavailable=2), "podManagementPolicy": "Parallel"}, "--~", ["1"]),
        ({**rolling(maxUnavailable=2), "podManagementPolicy": "Parallel"}, "-~~", []),
    ],
)
def test_a_rolling_update(spec: Object, states: str, delete: list[str]) -> None:
    ways = {"-": "ready", "+": "ready", "~": "running", "!": "running", "x": "ending"}
    pods = [pod(number, ways[state], "web-new" if state in "+~" else "web-old") for number, state in enumerate(states)]
    decision = step(stateful_set(**spec), pods)
    assert created_and_deleted(decision) == ([], delete)


@pytest.mark.parametrize(
    ("spec", "status", "ordinal", "revision"),
    [
        (rolling(partition=2), {}, 1, "web-old"),
        (rolling(partition=1), {}, 1, "web-new"),
        (rolling(partition=0), {"currentReplicas": 3}, 1, "web-new"),
        ({"updateStrategy": {"type": "RollingUpdate"}}, {"currentReplicas": 2}, 1, "web-old"),
        ({"updateStrategy": {"type": "RollingUpdate"}}, {"currentReplicas": 1}, 1, "web-new"),
        ({"updateStrategy": {"type": "OnDelete"}}, {"currentReplicas": 3}, 1, "web-new"),
        ({**rolling(partition=2), "ordinals": {"start": 5}}, {}, 6, "web-old"),
        ({**rolling(partition=2), "ordinals": {"start": 5}}, {}, 7, "web-new"),
    ],
)
def test_which_revision_a_new_pod_has(spec: Object, status: Object, ordinal: int, revision: str) -> None:
    owner = {**stateful_set(**spec), "status": status}
    start = (spec.get("ordinals") or {}).get("start", 0)
    (made,) = step(owner, [pod(number) for number in range(start, ordinal)]).create
    assert made["metadata"]["name"] == f"web-{ordinal}"
    assert made["metadata"]["labels"]["controller-revision-hash"] == revision
    assert made["spec"]["containers"] == ([] if revision == "web-old" else [{"name": "c"}])


def test_availability_takes_its_time() -> None:
    owner = stateful_set(2, minReadySeconds=30)
    decision = step(owner, [pod(0, "new")])
    assert created_and_deleted(decision) == ([], [])
    assert (decision.status["readyReplicas"], decision.status["availableReplicas"]) == (1, 0)
    assert created_and_deleted(step(owner, [pod(0)])) == (["1"], [])


@pytest.mark.parametrize(
    ("pods", "counts", "current"),
    [
        # replicas, ready, available, current, updated
        ([], (0, 0, 0, 0, 0), "web-old"),
        ([pod(0), pod(1), pod(2)], (3, 3, 3, 3, 3), "web-new"),
        ([pod(0, revision="web-old"), pod(1), pod(2)], (3, 3, 3, 0, 2), "web-old"),
        ([pod(0, revision="web-old"), pod(1, revision="web-old"), pod(2, "running")], (3, 2, 2, 2, 1), "web-old"),
        ([pod(0), pod(1), pod(2), pod(3, "ending")], (4, 4, 4, 0, 3), "web-old"),
        ([pod(0), pod(1, "pending")], (2, 1, 1, 0, 2), "web-old"),
    ],
)
def test_what_the_status_says(pods: list[Object], counts: tuple[int, ...], current: str) -> None:
    status = step(stateful_set(), pods).status
    fields = ("replicas", "readyReplicas", "availableReplicas", "currentReplicas", "updatedReplicas")
    assert tuple(status.get(field, 0) for field in fields) == counts
    assert (status["currentRevision"], status["updateRevision"]) == (current, "web-new")
    assert all(status[field] for field in fields if field in status and field not in ("replicas", "availableReplicas"))


def test_a_set_that_is_deleted_only_counts() -> None:
    owner = stateful_set()
    owner["metadata"]["deletionTimestamp"] = JUST_NOW
    decision = step(owner, [pod(0), pod(5)])
    assert created_and_deleted(decision) == ([], [])
    assert decision.status["replicas"] == 2


# --- claims ---

SET_OWNER = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "s", "controller": True}
POD_OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "web-1", "uid": "web-1-uid", "controller": True}
OTHER_POD = {**POD_OWNER, "uid": "before"}
STRANGER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x", "controller": True}


def with_claims(replicas: int, deleted: str = "Retain", scaled: str = "Retain") -> Object:
    template = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    policy = {"whenDeleted": deleted, "whenScaled": scaled}
    return stateful_set(replicas, volumeClaimTemplates=[template], persistentVolumeClaimRetentionPolicy=policy)


def pod_with_claim(ordinal: int, state: str = "ready") -> Object:
    made = pod(ordinal, state)
    made["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-web-{ordinal}"}}]
    return made


def volume_claim(ordinal: int, *owners: Object, **metadata: Any) -> dict[str, Object]:
    name = f"data-web-{ordinal}"
    return {name: {"metadata": {"name": name, "resourceVersion": "1", "ownerReferences": list(owners), **metadata}}}


@pytest.mark.parametrize(
    ("replicas", "policy", "owners", "wanted"),
    [
        # Of the claim of pod 1, which is wanted with two replicas and surplus with one. None: they stay as they are.
        (2, ("Retain", "Retain"), [], None),
        (2, ("Retain", "Retain"), [SET_OWNER], []),
        (2, ("Retain", "Retain"), [STRANGER], None),
        (2, ("Delete", "Retain"), [], ["s"]),
        (2, ("Delete", "Retain"), [SET_OWNER], None),
        (2, ("Delete", "Retain"), [{**SET_OWNER, "controller": False}], ["s"]),
        (2, ("Delete", "Retain"), [POD_OWNER], ["s"]),
        (2, ("Delete", "Retain"), [STRANGER], None),
        (2, ("Delete", "Retain"), [STRANGER, SET_OWNER], ["x"]),
        (2, ("Delete", "Retain"), [{**SET_OWNER, "uid": "before"}], None),
        (2, ("Retain", "Delete"), [], None),
        (2, ("Retain", "Delete"), [POD_OWNER], []),
        (1, ("Delete", "Retain"), [], ["s"]),
        (1, ("Retain", "Delete"), [], ["web-1-uid"]),
        (1, ("Delete", "Delete"), [SET_OWNER], ["web-1-uid"]),
        (1, ("Delete", "Delete"), [POD_OWNER], None),
        (1, ("Retain", "Delete"), [OTHER_POD], None),
    ],
)
def test_who_owns_a_claim(
    replicas: int, policy: tuple[str, str], owners: list[Object], wanted: list[str] | None
) -> None:
    claims = {**volume_claim(0, *([SET_OWNER] if policy[0] == "Delete" else [])), **volume_claim(1, *owners)}
    found = step(with_claims(replicas, *policy), [pod_with_claim(0), pod_with_claim(1)], claims).owner_patches
    if wanted is None:
        assert not found
    else:
        ((_, patch),) = found.values()
        assert [one["uid"] for one in patch["metadata"]["ownerReferences"] or ()] == wanted


def test_claims_come_before_the_pod_and_are_made_again() -> None:
    decision = step(with_claims(1, "Delete"), [])
    ((name, claim),) = decision.create_claims
    assert (name, claim["metadata"]["name"]) == ("web-0", "data-web-0")
    assert claim["metadata"]["labels"] == {"app": "web"}
    assert [one["uid"] for one in claim["metadata"]["ownerReferences"]] == ["s"]
    (made,) = decision.create
    assert made["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}}]
    assert [one for one, _ in step(with_claims(1), [pod_with_claim(0, "pending")]).create_claims] == ["web-0"]
    assert not step(with_claims(1), [pod_with_claim(0)]).create_claims


def test_a_claim_on_its_way_out_is_waited_for() -> None:
    going = volume_claim(0, deletionTimestamp=JUST_NOW)
    decision = step(with_claims(1), [], going)
    assert decision.blocked == [("web-0", "pvc data-web-0 is being deleted")]
    assert not decision.create
    stale = volume_claim(0, {**OTHER_POD, "name": "web-0"})
    decision = step(with_claims(1, scaled="Delete"), [], stale)
    assert not decision.create
    assert not decision.blocked
    assert len(step(with_claims(1), [], stale).create) == 1


# --- identity and history ---


def test_identity_is_given_to_a_pod_that_lacks_it() -> None:
    bare = {**pod(0), "metadata": {"name": "web-0", "uid": "u", "labels": {"app": "web"}}}
    ((_, patch),) = step(stateful_set(1), [bare]).corrections
    wanted = {"statefulset.kubernetes.io/pod-name": "web-0", "apps.kubernetes.io/pod-index": "0"}
    assert patch == {"metadata": {"labels": wanted}}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("web-0", ("web", 0)),
        ("a-b-12", ("a-b", 12)),
        ("web", ("", -1)),
        ("web-x", ("", -1)),
        ("web-99999999999", ("web", -1)),
    ],
)
def test_names(name: str, wanted: tuple[str, int]) -> None:
    assert parent_and_ordinal(name) == wanted


def test_members_by_name() -> None:
    mine, other = pod(0), {"metadata": {"name": "other-0"}}
    claims = filter_members(stateful_set(), OwnershipClaims([mine, other], [mine, other], []))
    assert (claims.owned, claims.adopt, claims.release) == ([mine], [mine], [other])


def test_history() -> None:
    owner = stateful_set()
    reference = controller_reference(owner, "apps/v1", "StatefulSet")
    first = new_revision(owner, reference, 1, 0)
    assert first["data"]["spec"]["template"]["$patch"] == "replace"
    assert first["metadata"]["name"] == f"web-{first['metadata']['labels']['controller.kubernetes.io/hash']}"
    changed = stateful_set(template={"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}})
    second = new_revision(changed, reference, 2, 0)
    assert sort_revisions([second, first]) == [first, second]
    assert (find_equal_revision(owner, [first, second]), find_equal_revision(changed, [first, second])) == (
        first,
        second,
    )
    assert find_equal_revision(stateful_set(template={"spec": {}}), [first, second]) is None
    assert len({first["metadata"]["name"], new_revision(owner, reference, 1, 1)["metadata"]["name"]}) == 2


def test_the_hash_is_that_of_upstream() -> None:
    # HashControllerRevision of k8s.io/kubernetes/pkg/controller/history for this data and a probe of 0.
    assert revision_hash({"spec": {"template": {"$patch": "replace"}}}, 0) == "589f85db5b"


def test_old_revisions_go_when_no_pod_is_at_them() -> None:
    found = [{"metadata": {"name": name}} for name in ("a", "b", "c", "web-old", "web-new")]
    pods = [pod(0, revision="a")]
    live = {"web-old", "web-new"}

    def gone(limit: int | None) -> list[str]:
        owner = stateful_set(revisionHistoryLimit=limit)
        return [one["metadata"]["name"] for one in revisions_to_delete(owner, pods, found, live)]

    assert [gone(0), gone(1), gone(2), gone(None)] == [["b", "c"], ["b"], [], []]
