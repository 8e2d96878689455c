"""Decisions about KINDClusters in tables and as properties: over any snapshot, and over whole life cycles with
crashes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.capi.providers.kind.answers import Problem, failure
from shoal.capi.providers.kind.decide import decide
from shoal.capi.providers.kind.kubeconfigs import Access
from shoal.capi.providers.kind.status import Event, claim_of, failed_again, recorded, resting
from shoal.capi.providers.kind.steps import (
    Cancel,
    Create,
    Fetch,
    Fetched,
    Listing,
    Look,
    Mark,
    Marked,
    Patch,
    Remove,
    Snapshot,
    Step,
    Wait,
    Work,
    Write,
    WriteSecret,
)
from shoal.kinds import kindcluster
from tests.capi.kind.place import condition, kind_cluster

Object = dict[str, Any]

NOW = "2026-01-01T00:00:00Z"
DOWN = Problem("EngineUnavailable", "the engine is down")
OURS, OTHERS = Access("text", "1", "127.0.0.1", 6443), Access("text", "2", "127.0.0.1", 6443)


def an_object(claim: Object | None = None, *, deleting: bool = False, **spec: Any) -> Object:
    obj = kind_cluster("a", **spec)
    obj["metadata"] |= {"namespace": "default", "uid": "u", "generation": 1, "finalizers": [kindcluster.FINALIZER]}
    obj["metadata"]["resourceVersion"] = "1"
    if deleting:
        obj["metadata"]["deletionTimestamp"] = NOW
    if claim is not None:
        obj["status"] = {"cluster": {**kindcluster.shape_of(obj), **claim}}
    return obj


def snapshot(obj: Object, *names: str, **fields: Any) -> Snapshot:
    listing = Listing(frozenset(names), None, fresh=True)
    known: Object = {"cluster": None, "holder": "", "listing": listing, "work": None, "fetched": None, "marked": None}
    return Snapshot(obj=obj, **{**known, "secrets": (), "taken": frozenset(), "now": NOW, **fields})


CREATING, REMOVING, CREATED = {"state": "Creating"}, {"state": "Removing"}, {"state": "Created", "id": "1"}
BY_KIND = Fetched(OURS, None, fresh=True)
ANOTHER = Fetched(OTHERS, None, fresh=True)
BROKEN = Fetched(None, DOWN, fresh=True)


@pytest.mark.parametrize(
    ("seen", "step"),
    [
        (snapshot(an_object(), listing=None), Look()),
        (snapshot(an_object(), listing=Listing(frozenset(), None, fresh=False)), Look()),
        (snapshot(an_object(CREATING)), Create),
        (snapshot(an_object(CREATING), listing=Listing(frozenset(), None, fresh=False)), Look()),
        (snapshot(an_object(CREATING), "a"), Mark("a")),
        (snapshot(an_object(REMOVING), "a"), Mark("a")),
        (snapshot(an_object(REMOVING), "a", marked=Marked(None)), Remove("a")),
        (snapshot(an_object(REMOVING), "a", marked=Marked("u")), Remove("a")),
        (snapshot(an_object({**REMOVING, "id": "1"}), "a"), Fetch("a")),
        (snapshot(an_object({**REMOVING, "id": "1"}), "a", fetched=BY_KIND), Remove("a")),
        (snapshot(an_object({**REMOVING, "id": "1"}), "a", fetched=BROKEN), Remove("a")),
        (snapshot(an_object(CREATED), "a"), Fetch("a")),
        (snapshot(an_object(CREATED), "a", fetched=BY_KIND), WriteSecret),
        (snapshot(an_object(CREATED), "a", fetched=replace(BY_KIND, fresh=False)), Fetch("a")),
        (snapshot(an_object(CREATING), work=Work("Create", False, None, "pulling")), Write),
        (snapshot(an_object(CREATING, deleting=True), work=Work("Create", False, None, "")), Cancel()),
        (snapshot(an_object(CREATED, deleting=True), "a"), Fetch("a")),
        (snapshot(an_object(CREATED, deleting=True), "a", fetched=BY_KIND), Remove("a")),
        (snapshot(an_object(CREATED, deleting=True), "a", fetched=ANOTHER), Patch),
        (snapshot(an_object(CREATED, deleting=True)), Patch),
        (snapshot(an_object(deleting=True), "a", listing=None), Patch),
    ],
)
def test_the_next_step(seen: Snapshot, step: Step | type) -> None:
    found = decide(seen)
    assert isinstance(found, step) if isinstance(step, type) else found == step


@pytest.mark.parametrize(
    ("seen", "reason", "claim"),
    [
        (snapshot(an_object()), "Creating", "Creating"),
        (snapshot(an_object(), "a"), "ForeignCluster", None),
        (snapshot(an_object(), holder="default/b"), "NameTaken", None),
        (snapshot(an_object(), listing=Listing(frozenset(), DOWN, fresh=True)), "EngineUnavailable", None),
        (snapshot(an_object(nodes=[{"role": "worker"}])), "InvalidSpec", None),
        (snapshot(an_object(CREATED), listing=Listing(frozenset(), DOWN, fresh=True)), "EngineUnavailable", "Created"),
        (snapshot(an_object(CREATED)), "ClusterLost", None),
        (snapshot(an_object(CREATED), "a", fetched=BROKEN), "KubeconfigUnavailable", "Created"),
        (snapshot(an_object(CREATED), "a", fetched=ANOTHER), "ForeignCluster", None),
        (snapshot(an_object(CREATING), "a", marked=Marked(None)), "Interrupted", "Removing"),
        (snapshot(an_object(CREATING), "a", marked=Marked("")), "ForeignCluster", None),
        (snapshot(an_object(CREATING), work=Work("Create", True, DOWN, "")), "EngineUnavailable", "Removing"),
        (snapshot(an_object(CREATING), work=Work("Create", True, None, ""), fetched=BY_KIND), "Created", "Created"),
    ],
)
def test_what_is_said(seen: Snapshot, reason: str, claim: str | None) -> None:
    found = decide(seen)
    assert isinstance(found, Write)
    assert condition(found.obj)["reason"] == reason
    assert (claim_of(found.obj) or {}).get("state") == claim
    # Said once: what it wrote changes nothing when it is looked at again, unless it goes on from there.
    again = decide(replace(seen, obj=found.obj, work=None))
    assert again != found


def test_a_cluster_on_another_machine_is_not_gone() -> None:
    for deleting in (False, True):
        seen = snapshot(an_object({**CREATED, "machine": "there"}, deleting=deleting), machine="here")
        step = decide(seen)
        assert isinstance(step, Write)
        assert (condition(step.obj)["reason"], condition(step.obj)["status"]) == ("OnAnotherMachine", "Unknown")
        assert claim_of(step.obj) == claim_of(seen.obj)
        assert decide(replace(seen, obj=step.obj)) == Wait()
    seen.obj["metadata"]["annotations"] = {kindcluster.ADOPT: "true"}
    step = decide(seen)
    assert isinstance(step, Write)
    assert (claim_of(step.obj) or {})["machine"] == "here"
    assert isinstance(decide(replace(seen, obj=step.obj)), Patch)


def test_trouble_in_other_words_is_not_written_again() -> None:
    first = decide(snapshot(an_object(CREATED), listing=Listing(frozenset(), DOWN, fresh=True)))
    assert isinstance(first, Write)
    later = Problem("EngineUnavailable", "12:01 the engine is down")
    assert decide(snapshot(first.obj, listing=Listing(frozenset(), later, fresh=True))) == Wait()


def test_history_is_bounded_and_counts_repeats() -> None:
    history: list[Object] = []
    for number in range(100):
        history = recorded(history, Event("Again", f"{number // 2}"), NOW)
    assert len(history) == 20
    assert {entry["count"] for entry in history} == {2}
    assert history[-1]["message"] == "49"


def test_pauses_double_up_to_a_bound_and_a_change_ends_them() -> None:
    obj, pauses = an_object(), []
    for _ in range(9):
        obj["status"] = {"retry": failed_again(obj, "Create", NOW, 10.0, 600.0)}
        pauses.append(resting(obj, "Create", NOW))
    assert pauses == [10, 20, 40, 80, 160, 320, 600, 600, 600]
    assert resting(obj, "Delete", NOW) == 0
    obj["metadata"]["generation"] = 2
    assert resting(obj, "Create", NOW) == 0


def test_what_kind_says_becomes_a_reason() -> None:
    said = [
        'ERROR: failed to create cluster: command "docker run" failed with error: exit status 125',
        "Command Output: Cannot connect to the Docker daemon at unix:///var/run/docker.sock.",
    ]
    assert failure("create cluster", said).reason == "EngineUnavailable"
    said = ['ERROR: failed to create cluster: node(s) already exist for a cluster with the name "a"']
    assert failure("create cluster", said).reason == "AlreadyExists"
    assert failure("get clusters", []).message == "kind get clusters: it said nothing"
    assert len(failure("create cluster", ["ERROR: " + "x" * 5000, "y" * 5000]).message) == 1000


claims = st.sampled_from([None, CREATING, REMOVING, {**REMOVING, "id": "1"}, CREATED, {"state": "Created"}])
works = st.sampled_from(
    [None, *(Work(a, d, p, "") for a in ("Create", "Delete") for d in (True, False) for p in (None, DOWN))]
)
snapshots = st.builds(
    lambda claim, deleting, spec, **fields: snapshot(an_object(claim, deleting=deleting, **spec), **fields),
    claims,
    st.booleans(),
    st.sampled_from([{}, {"replacePolicy": "Replace"}, {"nodes": [{"role": "worker"}]}]),
    holder=st.sampled_from(["", "default/b"]),
    listing=st.none()
    | st.builds(Listing, st.sampled_from([frozenset(), frozenset("a")]), st.sampled_from([None, DOWN]), st.booleans()),
    work=works,
    fetched=st.none() | st.sampled_from([BY_KIND, ANOTHER, BROKEN, replace(BY_KIND, fresh=False)]),
    marked=st.none() | st.sampled_from([Marked(None), Marked(""), Marked("u"), Marked("other")]),
)


@given(snapshots)
def test_nothing_is_done_on_what_is_not_known(seen: Snapshot) -> None:
    step, claim = decide(seen), claim_of(seen.obj)
    known = seen.listing is not None and seen.listing.fresh and seen.listing.problem is None
    there = seen.listing is not None and "a" in seen.listing.names
    if isinstance(step, Create):
        assert claim is not None
        assert known
        assert not there
        assert seen.work is None
    if isinstance(step, Remove):
        assert claim is not None
        assert known
        assert there
        assert seen.fetched is not ANOTHER or not claim.get("id")
        assert claim.get("id") or seen.marked in (Marked(None), Marked("u"))
    if isinstance(step, Write) and claim is not None and claim_of(step.obj) is None:
        assert known or (seen.work is not None and seen.work.problem is not None) or seen.fetched is ANOTHER
    if isinstance(step, Patch) and kindcluster.FINALIZER not in step.body["metadata"].get("finalizers", ["x"]):
        assert "deletionTimestamp" in seen.obj["metadata"]
        assert claim is None or known
