"""Tests of inter-pod affinity and anti-affinity."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.fit.podaffinity import (
    AFFINITY_MISMATCH,
    ANTI_AFFINITY_MISMATCH,
    EXISTING_ANTI_AFFINITY_MISMATCH,
    AffinityCounts,
    AffinityTerms,
    PeerPod,
    affinity_terms,
)

Object = dict[str, Any]
HOST, ZONE = "host", "zone"
NAMESPACES = {"default": {"team": "red"}, "other": {"team": "blue"}}
WEB, DB = {"matchLabels": {"app": "web"}}, {"matchLabels": {"app": "db"}}


def labels_of(namespace: str) -> dict[str, str]:
    return NAMESPACES.get(namespace, {})


def term(selector: Object | None, key: str = ZONE, **more: Any) -> Object:
    return {"topologyKey": key, "labelSelector": selector, **more}


def affinity(*, near: list[Object] | None = None, far: list[Object] | None = None, soft: bool = False) -> Object:
    def rules(found: list[Object] | None) -> Object:
        if not soft:
            return {"requiredDuringSchedulingIgnoredDuringExecution": found or []}
        weighted = [{"weight": 10 * (i + 1), "podAffinityTerm": each} for i, each in enumerate(found or [])]
        return {"preferredDuringSchedulingIgnoredDuringExecution": weighted}

    return {"affinity": {"podAffinity": rules(near), "podAntiAffinity": rules(far)}}


def peer(app: str = "web", namespace: str = "default", spec: Object | None = None, **more: Any) -> PeerPod:
    return PeerPod(namespace, {"app": app} if app else {}, affinity_terms(spec or {}, namespace), **more)


def node(host: str, zone: str = "a") -> dict[str, str]:
    return {HOST: host, ZONE: zone}


def around(me: PeerPod, *there: tuple[dict[str, str], PeerPod]) -> AffinityCounts:
    found = AffinityCounts(me, labels_of)
    for labels, other in there:
        found.add(labels, {other: 1})
    return found


def test_a_pod_that_says_nothing_of_others_has_no_terms() -> None:
    assert affinity_terms({}, "default") is None
    assert affinity_terms({"affinity": {"nodeAffinity": {}}}, "default") is None
    assert affinity_terms(affinity(), "default") is None
    assert affinity_terms(affinity(near=[term(WEB)]), "default") is not None


@pytest.mark.parametrize(
    ("asked", "other", "meant"),
    [
        (term(WEB), peer("web"), True),
        (term(WEB), peer("db"), False),
        (term(WEB), peer("web", "other"), False),
        (term(WEB, namespaces=["other"]), peer("web", "other"), True),
        (term(WEB, namespaces=["other"]), peer("web"), False),
        (term(WEB, namespaceSelector={}), peer("web", "other"), True),
        (term(WEB, namespaceSelector={"matchLabels": {"team": "blue"}}), peer("web", "other"), True),
        (term(WEB, namespaceSelector={"matchLabels": {"team": "blue"}}), peer("web"), False),
        (term(WEB, namespaces=["default"], namespaceSelector={"matchLabels": {"team": "blue"}}), peer("web"), True),
        (term({}), peer(""), True),
        (term(None), peer("web"), False),
        (term({"matchExpressions": [{"key": "app", "operator": "Wrong"}]}), peer("web"), False),
    ],
)
def test_whom_a_term_means(asked: Object, other: PeerPod, meant: bool) -> None:
    me = peer("db", spec=affinity(far=[asked]))
    assert isinstance(me.terms, AffinityTerms)
    assert me.terms.matches_any(other, labels_of) is meant
    expected = ANTI_AFFINITY_MISMATCH if meant else ""
    assert around(me, (node("1"), other)).reject_reason(node("2")) == expected


def test_together_with_another() -> None:
    me = peer("db", spec=affinity(near=[term(WEB)]))
    assert around(me).reject_reason(node("1")) == AFFINITY_MISMATCH
    with_web = around(me, (node("1", "a"), peer("web")))
    assert with_web.reject_reason(node("2", "a")) == ""
    assert with_web.reject_reason(node("3", "b")) == AFFINITY_MISMATCH
    assert with_web.reject_reason({HOST: "4"}) == AFFINITY_MISMATCH, "a node in no zone"


def test_all_terms_of_affinity_mean_the_same_pod() -> None:
    backend = {"matchLabels": {"tier": "x"}}
    me = peer("db", spec=affinity(near=[term(WEB), term(backend, HOST)]))
    both = PeerPod("default", {"app": "web", "tier": "x"})
    assert around(me, (node("1"), peer("web")), (node("1"), PeerPod("default", {"tier": "x"}))).reject_reason(node("1"))
    assert around(me, (node("1"), both)).reject_reason(node("1")) == ""
    assert around(me, (node("1"), both)).reject_reason(node("2")) == AFFINITY_MISMATCH, "the same zone, another host"


def test_the_first_of_several_that_want_to_be_together_goes_anywhere() -> None:
    me = peer("web", spec=affinity(near=[term(WEB)]))
    assert around(me).reject_reason(node("1")) == ""
    assert around(me).reject_reason({HOST: "1"}) == AFFINITY_MISMATCH
    second = around(me, (node("1", "a"), me))
    assert second.reject_reason(node("2", "b")) == AFFINITY_MISMATCH
    assert second.reject_reason(node("2", "a")) == ""


def test_apart_from_others() -> None:
    me = peer("web", spec=affinity(far=[term(WEB, HOST)]))
    there = around(me, (node("1"), peer("web")))
    assert there.reject_reason(node("1")) == ANTI_AFFINITY_MISMATCH
    assert there.reject_reason(node("2")) == ""
    assert there.reject_reason({}) == "", "a node without the label is a domain of its own"


def test_pods_that_are_there_keep_others_away() -> None:
    loner = peer("db", spec=affinity(far=[term(WEB)]))
    there = around(peer("web"), (node("1", "a"), loner))
    assert there.reject_reason(node("2", "a")) == EXISTING_ANTI_AFFINITY_MISMATCH
    assert there.reject_reason(node("2", "b")) == ""
    assert around(peer("cache"), (node("1", "a"), loner)).reject_reason(node("2", "a")) == ""


def test_what_a_pod_likes_and_who_likes_it() -> None:
    me = peer("web", spec=affinity(near=[term(DB)], far=[term(WEB, HOST)], soft=True))
    there = around(me, (node("1", "a"), peer("db")), (node("1", "a"), peer("web")))
    assert there.score(node("2", "a")) == 10
    assert there.score(node("1", "a")) == 10 - 10
    assert there.score(node("3", "b")) == 0
    fond = peer("cache", spec=affinity(near=[term(WEB)], soft=True))
    needs = peer("cache", spec=affinity(near=[term(WEB)]))
    shy = peer("cache", spec=affinity(far=[term(WEB)], soft=True))
    assert around(peer("web"), (node("1"), fond)).score(node("2")) == 10
    assert around(peer("web"), (node("1"), needs)).score(node("2")) == 1
    assert around(peer("web"), (node("1"), shy)).score(node("2")) == -10


def test_who_makes_no_difference() -> None:
    me = peer("web", spec=affinity(far=[term(WEB)]))
    there = AffinityCounts(me, labels_of)
    assert there.is_affected_by(peer("web"))
    assert not there.is_affected_by(peer("db"))
    assert there.add(node("1"), {peer("db"): 3}) == {}


def test_labels_of_namespaces_are_asked_for_by_some() -> None:
    asked = {"matchLabels": {"team": "red"}}
    assert not peer(spec=affinity(far=[term(WEB)])).terms.uses_namespace_selector()  # type: ignore[union-attr]
    assert not peer(spec=affinity(far=[term(WEB, namespaceSelector={})])).terms.uses_namespace_selector()  # type: ignore[union-attr]
    assert peer(spec=affinity(far=[term(WEB, namespaceSelector=asked)])).terms.uses_namespace_selector()  # type: ignore[union-attr]


some_term = st.builds(
    term,
    st.sampled_from([WEB, DB, {}, None]),
    st.sampled_from([HOST, ZONE]),
    namespaceSelector=st.sampled_from([None, {}, {"matchLabels": {"team": "blue"}}]),
)
some_peer = st.builds(
    peer,
    st.sampled_from(["web", "db"]),
    st.sampled_from(["default", "other"]),
    st.builds(affinity, near=st.lists(some_term, max_size=1), far=st.lists(some_term, max_size=1), soft=st.booleans()),
)
some_node = st.builds(node, st.sampled_from("123"), st.sampled_from("ab"))


@given(some_peer, st.lists(st.tuples(some_node, some_peer), max_size=8), st.data())
def test_what_is_taken_away_was_never_there(
    me: PeerPod, there: list[tuple[dict[str, str], PeerPod]], data: st.DataObject
) -> None:
    counted = AffinityCounts(me, labels_of)
    shares = [counted.add(labels, {other: 1}) for labels, other in there]
    gone = data.draw(st.sets(st.integers(0, max(len(there) - 1, 0)))) if there else set()
    for index in gone:
        counted.subtract(shares[index])
    fresh = around(me, *(each for index, each in enumerate(there) if index not in gone))
    for labels in (node("1", "a"), node("2", "b"), {ZONE: "a"}, {}):
        assert counted.reject_reason(labels) == fresh.reject_reason(labels)
        assert counted.score(labels) == fresh.score(labels)
