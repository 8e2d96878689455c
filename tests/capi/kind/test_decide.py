"""Decisions about KINDClusters in tables and as properties: over any snapshot, and over whole life cycles with
crashes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.capi.providers.kind.decide import decide
from shoal.capi.providers.kind.errors import KindError, command_error
from shoal.capi.providers.kind.kubeconfig_secrets import KubeconfigAccess
from shoal.capi.providers.kind.status import HistoryEntry, append_history, claim_of, next_retry, retry_wait
from shoal.capi.providers.kind.steps import (
    CancelJob,
    CreateCluster,
    DeleteCluster,
    EngineImages,
    FetchedKubeconfig,
    FetchKubeconfig,
    InspectImages,
    JobState,
    KindClusterList,
    KindClusterSnapshot,
    KindStep,
    ListClusters,
    LoadImages,
    OwnerMarker,
    PatchObject,
    ReadOwner,
    WaitForChange,
    WriteSecret,
    WriteStatus,
)
from shoal.kinds.clusterapi import kindcluster
from tests.capi.kind.kind_environment import condition, kind_cluster

Object = dict[str, Any]

NOW = "2026-01-01T00:00:00Z"
DOWN = KindError("EngineUnavailable", "the engine is down")
OURS, OTHERS = KubeconfigAccess("text", "1", "127.0.0.1", 6443), KubeconfigAccess("text", "2", "127.0.0.1", 6443)


def an_object(claim: Object | None = None, *, deleting: bool = False, **spec: Any) -> Object:
    obj = kind_cluster("a", **spec)
    obj["metadata"] |= {"namespace": "default", "uid": "u", "generation": 1, "finalizers": [kindcluster.FINALIZER]}
    obj["metadata"]["resourceVersion"] = "1"
    if deleting:
        obj["metadata"]["deletionTimestamp"] = NOW
    if claim is not None:
        obj["status"] = {"cluster": {**kindcluster.immutable_fields(obj), **claim}}
    return obj


def snapshot(obj: Object, *names: str, **fields: Any) -> KindClusterSnapshot:
    listing = KindClusterList(frozenset(names), None, fresh=True)
    known: Object = {"cluster": None, "holder": "", "listing": listing, "job": None, "kubeconfig": None}
    known |= {"owner_marker": None, "secrets": (), "foreign_secrets": frozenset(), "now": NOW}
    return KindClusterSnapshot(obj=obj, **{**known, **fields})


CREATING, REMOVING, CREATED = {"state": "Creating"}, {"state": "Removing"}, {"state": "Created", "id": "1"}
BY_KIND = FetchedKubeconfig(OURS, None, fresh=True)
ANOTHER = FetchedKubeconfig(OTHERS, None, fresh=True)
BROKEN = FetchedKubeconfig(None, DOWN, fresh=True)


@pytest.mark.parametrize(
    ("seen", "step"),
    [
        (snapshot(an_object(), listing=None), ListClusters()),
        (snapshot(an_object(), listing=KindClusterList(frozenset(), None, fresh=False)), ListClusters()),
        (snapshot(an_object(CREATING)), CreateCluster),
        (snapshot(an_object(CREATING), listing=KindClusterList(frozenset(), None, fresh=False)), ListClusters()),
        (snapshot(an_object(CREATING), "a"), ReadOwner("a")),
        (snapshot(an_object(REMOVING), "a"), ReadOwner("a")),
        (snapshot(an_object(REMOVING), "a", owner_marker=OwnerMarker(None)), DeleteCluster("a")),
        (snapshot(an_object(REMOVING), "a", owner_marker=OwnerMarker("u")), DeleteCluster("a")),
        (snapshot(an_object({**REMOVING, "id": "1"}), "a"), FetchKubeconfig("a")),
        (snapshot(an_object({**REMOVING, "id": "1"}), "a", kubeconfig=BY_KIND), DeleteCluster("a")),
        (snapshot(an_object({**REMOVING, "id": "1"}), "a", kubeconfig=BROKEN), DeleteCluster("a")),
        (snapshot(an_object(CREATED), "a"), FetchKubeconfig("a")),
        (snapshot(an_object(CREATED), "a", kubeconfig=BY_KIND), WriteSecret),
        (snapshot(an_object(CREATED), "a", kubeconfig=replace(BY_KIND, fresh=False)), FetchKubeconfig("a")),
        (snapshot(an_object(CREATING), job=JobState("Create", False, None, "pulling")), WriteStatus),
        (snapshot(an_object(CREATING, deleting=True), job=JobState("Create", False, None, "")), CancelJob()),
        (snapshot(an_object(CREATED, deleting=True), "a"), FetchKubeconfig("a")),
        (snapshot(an_object(CREATED, deleting=True), "a", kubeconfig=BY_KIND), DeleteCluster("a")),
        (snapshot(an_object(CREATED, deleting=True), "a", kubeconfig=ANOTHER), PatchObject),
        (snapshot(an_object(CREATED, deleting=True)), PatchObject),
        (snapshot(an_object(deleting=True), "a", listing=None), PatchObject),
    ],
)
def test_the_next_step(seen: KindClusterSnapshot, step: KindStep | type) -> None:
    found = decide(seen)
    assert isinstance(found, step) if isinstance(step, type) else found == step


@pytest.mark.parametrize(
    ("seen", "reason", "claim"),
    [
        (snapshot(an_object()), "Creating", "Creating"),
        (snapshot(an_object(), "a"), "ForeignCluster", None),
        (snapshot(an_object(), holder="default/b"), "NameTaken", None),
        (snapshot(an_object(), listing=KindClusterList(frozenset(), DOWN, fresh=True)), "EngineUnavailable", None),
        (snapshot(an_object(nodes=[{"role": "worker"}])), "InvalidSpec", None),
        (
            snapshot(an_object(CREATED), listing=KindClusterList(frozenset(), DOWN, fresh=True)),
            "EngineUnavailable",
            "Created",
        ),
        (snapshot(an_object(CREATED)), "ClusterLost", None),
        (snapshot(an_object(CREATED), "a", kubeconfig=BROKEN), "KubeconfigUnavailable", "Created"),
        (snapshot(an_object(CREATED), "a", kubeconfig=ANOTHER), "ForeignCluster", None),
        (snapshot(an_object(CREATING), "a", owner_marker=OwnerMarker(None)), "Interrupted", "Removing"),
        (snapshot(an_object(CREATING), "a", owner_marker=OwnerMarker("")), "ForeignCluster", None),
        (snapshot(an_object(CREATING), job=JobState("Create", True, DOWN, "")), "EngineUnavailable", "Removing"),
        (
            snapshot(an_object(CREATING), job=JobState("Create", True, None, ""), kubeconfig=BY_KIND),
            "Created",
            "Created",
        ),
    ],
)
def test_what_is_said(seen: KindClusterSnapshot, reason: str, claim: str | None) -> None:
    found = decide(seen)
    assert isinstance(found, WriteStatus)
    assert condition(found.obj)["reason"] == reason
    assert (claim_of(found.obj) or {}).get("state") == claim
    # Said once: what it wrote changes nothing when it is looked at again, unless it goes on from there.
    again = decide(replace(seen, obj=found.obj, job=None))
    assert again != found


def complete(claim: Object, **spec: Any) -> KindClusterSnapshot:
    """Everything but its images is done."""
    obj = an_object(claim, controlPlaneEndpoint={"host": "127.0.0.1", "port": 6443}, **spec)
    seen = snapshot(obj, "a", kubeconfig=BY_KIND)
    for _ in range(3):
        step = decide(seen)
        if isinstance(step, WriteSecret):
            seen = replace(seen, secrets=(step.secret,))
        elif isinstance(step, WriteStatus):
            seen = replace(seen, obj=step.obj)
    return seen


def test_images_are_loaded_when_all_else_is_done() -> None:
    seen = complete(CREATED, images=["app:1", "app:1", "db:2"])
    assert decide(seen) == InspectImages(("app:1", "db:2"))
    engine = EngineImages({"app:1": "i1"}, None)
    assert decide(replace(seen, engine_images=engine)) == LoadImages("a", {"app:1": "i1"})
    stale = replace(seen, engine_images=engine, kubeconfig=replace(BY_KIND, fresh=False))
    assert decide(stale) == FetchKubeconfig("a")
    done = JobState("LoadImages", True, None, "", images=dict(engine.ids))
    step = decide(replace(seen, job=done))
    assert isinstance(step, WriteStatus)
    assert step.forgets_job
    assert (claim_of(step.obj) or {})["images"] == [{"name": "app:1", "id": "i1"}]
    step = decide(replace(seen, obj=step.obj, engine_images=engine))
    assert isinstance(step, WriteStatus)
    assert condition(step.obj, "ImagesLoaded")["message"] == (
        "missing in the container engine: db:2; loaded into all nodes: app:1"
    )
    assert decide(replace(seen, obj=step.obj, engine_images=engine)) == WaitForChange()
    assert decide(complete(CREATED)) == WaitForChange()


def test_a_load_that_failed_waits_its_time_whatever_else_is_written() -> None:
    seen = complete(CREATED, images=["app:1"])
    failed = JobState("LoadImages", True, KindError("CommandFailed", "broken"), "", images={"app:1": "i1"})
    step = decide(replace(seen, job=failed))
    assert isinstance(step, WriteStatus)
    engine = EngineImages({"app:1": "i1"}, None)
    again = replace(seen, obj=step.obj, engine_images=engine)
    assert decide(again) == WaitForChange(10)
    changed = {**step.obj, "status": {**step.obj["status"], "phase": "Unknown"}}
    step = decide(replace(again, obj=changed))
    assert isinstance(step, WriteStatus)
    assert step.obj["status"]["retry"]["action"] == "LoadImages"
    assert decide(replace(again, obj=step.obj)) == WaitForChange(10)


def test_a_cluster_on_another_machine_is_not_gone() -> None:
    for deleting in (False, True):
        seen = snapshot(an_object({**CREATED, "machine": "there"}, deleting=deleting), host_id="here")
        step = decide(seen)
        assert isinstance(step, WriteStatus)
        assert (condition(step.obj)["reason"], condition(step.obj)["status"]) == ("OnAnotherMachine", "Unknown")
        assert claim_of(step.obj) == claim_of(seen.obj)
        assert decide(replace(seen, obj=step.obj)) == WaitForChange()
    seen.obj["metadata"]["annotations"] = {kindcluster.ADOPT_ANNOTATION: "true"}
    step = decide(seen)
    assert isinstance(step, WriteStatus)
    assert (claim_of(step.obj) or {})["machine"] == "here"
    assert isinstance(decide(replace(seen, obj=step.obj)), PatchObject)


def test_trouble_in_other_words_is_not_written_again() -> None:
    first = decide(snapshot(an_object(CREATED), listing=KindClusterList(frozenset(), DOWN, fresh=True)))
    assert isinstance(first, WriteStatus)
    later = KindError("EngineUnavailable", "12:01 the engine is down")
    assert decide(snapshot(first.obj, listing=KindClusterList(frozenset(), later, fresh=True))) == WaitForChange()


def test_history_is_bounded_and_counts_repeats() -> None:
    history: list[Object] = []
    for number in range(100):
        history = append_history(history, HistoryEntry("Again", f"{number // 2}"), NOW)
    assert len(history) == 20
    assert {entry["count"] for entry in history} == {2}
    assert history[-1]["message"] == "49"


def test_pauses_double_up_to_a_bound_and_a_change_ends_them() -> None:
    obj, pauses = an_object(), []
    for _ in range(9):
        obj["status"] = {"retry": next_retry(obj, "Create", NOW, 10.0, 600.0)}
        pauses.append(retry_wait(obj, "Create", NOW))
    assert pauses == [10, 20, 40, 80, 160, 320, 600, 600, 600]
    assert retry_wait(obj, "Delete", NOW) == 0
    obj["metadata"]["generation"] = 2
    assert retry_wait(obj, "Create", NOW) == 0


def test_what_kind_says_becomes_a_reason() -> None:
    said = [
        'ERROR: failed to create cluster: command "docker run" failed with error: exit status 125',
        "Command Output: Cannot connect to the Docker daemon at unix:///var/run/docker.sock.",
    ]
    assert command_error("kind create cluster", said).reason == "EngineUnavailable"
    said = ['ERROR: failed to create cluster: node(s) already exist for a cluster with the name "a"']
    assert command_error("kind create cluster", said).reason == "AlreadyExists"
    assert command_error("kind get clusters", []).message == "kind get clusters: no output"
    assert len(command_error("kind create cluster", ["ERROR: " + "x" * 5000, "y" * 5000]).message) == 1000


claims = st.sampled_from([None, CREATING, REMOVING, {**REMOVING, "id": "1"}, CREATED, {"state": "Created"}])
works = st.sampled_from(
    [
        None,
        *(
            JobState(action, done, error, "", images={"app:1": "2"})
            for action in ("Create", "Delete", "LoadImages")
            for done in (True, False)
            for error in (None, DOWN)
        ),
    ]
)
snapshots = st.builds(
    lambda claim, deleting, spec, **fields: snapshot(an_object(claim, deleting=deleting, **spec), **fields),
    claims,
    st.booleans(),
    st.sampled_from([{}, {"replacePolicy": "Replace"}, {"nodes": [{"role": "worker"}]}, {"images": ["app:1"]}]),
    holder=st.sampled_from(["", "default/b"]),
    listing=st.none()
    | st.builds(
        KindClusterList, st.sampled_from([frozenset(), frozenset("a")]), st.sampled_from([None, DOWN]), st.booleans()
    ),
    job=works,
    kubeconfig=st.none() | st.sampled_from([BY_KIND, ANOTHER, BROKEN, replace(BY_KIND, fresh=False)]),
    owner_marker=st.none()
    | st.sampled_from([OwnerMarker(None), OwnerMarker(""), OwnerMarker("u"), OwnerMarker("other")]),
    engine_images=st.sampled_from(
        [None, EngineImages({}, None), EngineImages({"app:1": "2"}, None), EngineImages({}, DOWN)]
    ),
)


@given(snapshots)
def test_nothing_is_done_on_what_is_not_known(seen: KindClusterSnapshot) -> None:
    step, claim = decide(seen), claim_of(seen.obj)
    known = seen.listing is not None and seen.listing.fresh and seen.listing.error is None
    there = seen.listing is not None and "a" in seen.listing.names
    if isinstance(step, CreateCluster):
        assert claim is not None
        assert known
        assert not there
        assert seen.job is None
    if isinstance(step, DeleteCluster):
        assert claim is not None
        assert known
        assert there
        assert seen.kubeconfig is not ANOTHER or not claim.get("id")
        assert claim.get("id") or seen.owner_marker in (OwnerMarker(None), OwnerMarker("u"))
    if isinstance(step, LoadImages):
        assert claim is not None
        assert claim["state"] == "Created"
        assert there
        assert seen.job is None
        assert seen.kubeconfig is BY_KIND
        assert "deletionTimestamp" not in seen.obj["metadata"]
    if isinstance(step, WriteStatus) and claim is not None and claim_of(step.obj) is None:
        assert known or (seen.job is not None and seen.job.error is not None) or seen.kubeconfig is ANOTHER
    if isinstance(step, PatchObject) and kindcluster.FINALIZER not in step.body["metadata"].get("finalizers", ["x"]):
        assert "deletionTimestamp" in seen.obj["metadata"]
        assert claim is None or known
