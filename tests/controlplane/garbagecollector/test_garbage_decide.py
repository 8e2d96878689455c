"""Tests of the garbage collector's decision and of the dependency graph: tables and properties."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.controlplane.garbagecollector.decide import (
    NOTHING,
    GarbageDecision,
    OwnerState,
    blockers,
    decide,
    owner_state,
    unblock_references,
    without_finalizer,
    without_owner,
)
from shoal.controlplane.garbagecollector.graph import (
    FOREGROUND,
    ORPHAN,
    DependencyGraph,
    GraphNode,
    ObjectRef,
    Owner,
    OwnerReference,
    graph_node_of,
)

Object = dict[str, Any]

A, B = {"uid": "a", "blockOwnerDeletion": True}, {"uid": "b"}
S, W, G, F, U = (
    OwnerState.SOLID,
    OwnerState.WAITING_FOR_DEPENDENTS,
    OwnerState.ABSENT,
    OwnerState.FOREIGN,
    OwnerState.UNKNOWN,
)


def node(
    name: str, *owners: str, cluster: str = "c", namespace: str = "n", blocks: bool = True, **more: Any
) -> GraphNode:
    """The uid is the name."""
    references = tuple(OwnerReference(Owner(cluster, namespace, "v1", "K", o, o), blocks) for o in owners)
    return GraphNode(ObjectRef(cluster, "", "ks", namespace, name), "v1", name, references, **more)


FREE = node("d")
GOING = node("d", finalizers=(FOREGROUND,), deleting=True)


@pytest.mark.parametrize(
    ("owners", "dependents", "finalizers", "expected"),
    [
        ([], [], [], NOTHING),
        ([(A, S)], [], [], NOTHING),
        ([(A, S), (B, S)], [], [], NOTHING),
        ([(A, G)], [], [], GarbageDecision(policy="Background")),
        ([(A, G)], [], [ORPHAN], GarbageDecision(policy="Orphan")),
        ([(A, G)], [], [FOREGROUND], GarbageDecision(policy="Foreground")),
        ([(A, G), (B, G)], [], ["other"], GarbageDecision(policy="Background")),
        ([(A, G), (B, S)], [], [], GarbageDecision(owner_references=[B])),
        ([(A, W), (B, S)], [FREE], [], GarbageDecision(owner_references=[B])),
        ([(A, W)], [], [], GarbageDecision(policy="Background")),
        ([(A, W)], [FREE], [], GarbageDecision(policy="Foreground")),
        ([(A, W)], [FREE, GOING], [], GarbageDecision([{**A, "blockOwnerDeletion": False}], "Foreground")),
        ([(B, W)], [GOING], [], GarbageDecision(policy="Foreground")),
        ([(A, U)], [], [], GarbageDecision(requeue=True)),
        ([(A, G), (B, U)], [], [], GarbageDecision(requeue=True)),
        ([(A, S), (B, U)], [], [], GarbageDecision(requeue=True)),
        ([(A, G), (B, F)], [], [], NOTHING),
        ([(A, F)], [GOING], [], NOTHING),
    ],
)
def test_what_becomes_of_an_object(
    owners: list[tuple[Object, OwnerState]],
    dependents: list[GraphNode],
    finalizers: list[str],
    expected: GarbageDecision,
) -> None:
    assert decide({"finalizers": finalizers}, owners, dependents) == expected


@given(st.lists(st.sampled_from(list(OwnerState)), max_size=5), st.booleans())
def test_nothing_is_deleted_unless_every_owner_is_known_to_go(states: list[OwnerState], has_dependents: bool) -> None:
    owners = [({"uid": str(number)}, state) for number, state in enumerate(states)]
    decision = decide({}, owners, [FREE] if has_dependents else [])
    assert bool(decision.policy) == (bool(states) and set(states) <= {G, W})


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (None, G),
        ({"uid": "other"}, G),
        ({"uid": "a"}, S),
        ({"uid": "a", "deletionTimestamp": "t"}, S),
        ({"uid": "a", "finalizers": [FOREGROUND]}, S),
        ({"uid": "a", "deletionTimestamp": "t", "finalizers": [ORPHAN]}, S),
        ({"uid": "a", "deletionTimestamp": "t", "finalizers": ["x", FOREGROUND]}, W),
    ],
)
def test_how_an_owner_is(metadata: Object | None, expected: OwnerState) -> None:
    assert owner_state(None if metadata is None else {"metadata": metadata}, "a") is expected


def test_who_holds_an_owner_back() -> None:
    owner = node("o", finalizers=(FOREGROUND,), deleting=True)
    found = [node("x", "o"), node("y", "o", blocks=False), node("z", "p"), node("o", "o")]
    assert [held.ref.name for held in blockers(owner, found)] == ["x"]


def test_small_changes() -> None:
    assert unblock_references([B]) is None
    assert unblock_references([A, B]) == [{**A, "blockOwnerDeletion": False}, {**B, "blockOwnerDeletion": False}]
    assert without_owner([A, B], "a") == [B]
    assert without_finalizer({"finalizers": ["x", ORPHAN]}, ORPHAN) == ["x"]
    assert without_finalizer({}, ORPHAN) == []


def test_a_node_from_the_stream() -> None:
    reference = {"apiVersion": "g/v1", "kind": "K", "name": "o", "uid": "u", "blockOwnerDeletion": True}
    annotations = {"shoal.dev/cluster": "c", "shoal.dev/resource": "g/v2/ks"}
    metadata = {"name": "x", "uid": "1", "annotations": annotations, "ownerReferences": [reference]}
    assert graph_node_of({"metadata": metadata}) == GraphNode(
        ObjectRef("c", "g", "ks", "", "x"), "v2", "1", (OwnerReference(Owner("c", "", "g/v1", "K", "o", "u"), True),)
    )


# --- the graph ---


def test_dependents_are_found_where_they_may_be() -> None:
    graph = DependencyGraph()
    for each in (node("x", "o"), node("y", "o", cluster="d"), node("z", "o", namespace="m"), node("w", "p")):
        graph.put(each)
    assert [held.ref.name for held in graph.dependents(node("o"))] == ["x"]
    assert [held.ref.name for held in graph.dependents(node("o", namespace=""))] == ["x", "z"]
    assert graph.dependents(node("o", cluster="e")) == []


def test_what_does_not_matter_is_not_kept() -> None:
    graph = DependencyGraph()
    graph.put(node("x", "o"))
    assert graph.put(node("x")) == node("x", "o")
    assert (graph.nodes, graph.owners_by_name("c", "o")) == ({}, [])
    graph.put(node("x", finalizers=(ORPHAN,)))
    assert not graph.nodes, "a finalizer waits for nothing before the deletion"
    graph.put(node("x", finalizers=(ORPHAN,), deleting=True))
    assert len(graph.nodes) == 1


NAMES = st.sampled_from("abcd")
STEPS = st.lists(st.tuples(NAMES, st.none() | st.lists(NAMES, max_size=3, unique=True)), max_size=30)


@given(STEPS)
def test_the_graph_is_what_was_put_last(steps: list[tuple[str, list[str] | None]]) -> None:
    graph, expected = DependencyGraph(), dict[str, GraphNode]()
    for name, owners in steps:
        if owners is None:
            graph.remove(node(name).ref)
            expected.pop(name, None)
        else:
            graph.put(node(name, *owners))
            expected[name] = node(name, *owners)
    expected = {name: found for name, found in expected.items() if found.references}
    assert {place.name: found for place, found in graph.nodes.items()} == expected
    for name in "abcd":
        holders = {held.ref.name for held in graph.dependents(node(name))}
        assert holders == {n for n, found in expected.items() if name in [ref.owner.name for ref in found.references]}
        owner = Owner("c", "n", "v1", "K", name, name)
        assert graph.has_dependents(owner) == bool(holders) == (graph.owners_by_name("c", name) == [owner])
        assert graph.node_of_owner(owner) == expected.get(name)
