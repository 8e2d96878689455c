"""Tests of namespace and CRD decisions, from tables."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.controlplane.crdfinalizer import controller as definitions
from shoal.controlplane.logicalclusters import controller as clusters
from shoal.controlplane.namespaces import decide as namespaces
from shoal.controlplane.namespaces.decide import NamespaceContent
from shoal.kinds.apiextensions.customresourcedefinition import CLEANUP_FINALIZER
from shoal.kinds.fleet.logicalcluster import CONTENT_FINALIZER

GOING = "2026-01-01T00:00:00Z"


def namespace(*finalizers: str, going: bool = True) -> dict[str, Any]:
    metadata = {"name": "n"} | ({"deletionTimestamp": GOING} if going else {})
    return {"metadata": metadata, "spec": {"finalizers": list(finalizers)}}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (namespace("kubernetes"), True),
        (namespace("kubernetes", "other"), True),
        (namespace("other"), False),
        (namespace(), False),
        (namespace("kubernetes", going=False), False),
        ({"metadata": {"name": "n", "deletionTimestamp": GOING}}, False),
    ],
)
def test_which_namespaces_are_emptied(given: dict[str, Any], expected: bool) -> None:
    assert namespaces.is_terminating(given) is expected


def test_only_a_complete_look_finds_nothing() -> None:
    assert namespaces.is_empty(NamespaceContent({"pods": 0}, {}))
    assert not namespaces.is_empty(NamespaceContent({"pods": 1}, {}))
    assert not namespaces.is_empty(NamespaceContent({}, {}, ("pods: refused",))), "what could not be read is not empty"


def test_the_other_finalizers_stay() -> None:
    given = namespace("kubernetes", "other")
    assert namespaces.without_finalizer(given)["spec"] == {"finalizers": ["other"]}
    assert given["spec"]["finalizers"] == ["kubernetes", "other"], "what was given is not touched"


def test_conditions_of_a_held_namespace() -> None:
    found = namespaces.conditions(NamespaceContent({"b.x": 2, "a": 1, "c": 0}, {"f/z": 1, "f/a": 2}, ("c: refused",)))
    assert [(kind, status, reason) for kind, status, reason, _ in found] == [
        ("NamespaceDeletionDiscoveryFailure", False, "ResourcesDiscovered"),
        ("NamespaceDeletionGroupVersionParsingFailure", False, "ParsedGroupVersions"),
        ("NamespaceDeletionContentFailure", True, "ContentDeletionFailed"),
        ("NamespaceContentRemaining", True, "SomeResourcesRemain"),
        ("NamespaceFinalizersRemaining", True, "SomeFinalizersRemain"),
    ]
    messages = {kind: message for kind, _, _, message in found}
    assert messages["NamespaceContentRemaining"] == (
        "Some resources are remaining: a has 1 resource instances, b.x has 2 resource instances"
    )
    assert messages["NamespaceFinalizersRemaining"] == (
        "Some content in the namespace has finalizers remaining: "
        "f/a in 2 resource instances, f/z in 1 resource instances"
    )
    assert "c: refused" in messages["NamespaceDeletionContentFailure"]


def test_conditions_of_an_empty_namespace() -> None:
    found = {kind: (status, reason) for kind, status, reason, _ in namespaces.conditions(NamespaceContent({}, {}))}
    assert not any(status for status, _ in found.values())
    assert found["NamespaceContentRemaining"] == (False, "ContentRemoved")
    assert found["NamespaceFinalizersRemaining"] == (False, "ContentHasNoFinalizers")
    assert found["NamespaceDeletionContentFailure"] == (False, "ContentDeleted")


def definition(*finalizers: str, going: bool = False, accepted: str = "True") -> dict[str, Any]:
    metadata = {"name": "d", "finalizers": list(finalizers)} | ({"deletionTimestamp": GOING} if going else {})
    return {"metadata": metadata, "status": {"conditions": [{"type": "NamesAccepted", "status": accepted}]}}


@pytest.mark.parametrize(
    ("given", "cleanup", "look"),
    [
        (definition(), False, False),
        (definition(CLEANUP_FINALIZER), False, False),
        (definition(CLEANUP_FINALIZER, going=True), True, False),
        (definition("other", going=True), False, False),
        (definition(accepted="False"), False, True),
        ({"metadata": {"name": "d"}}, False, True),
    ],
)
def test_what_a_definition_waits_for(given: dict[str, Any], cleanup: bool, look: bool) -> None:
    assert definitions.needs_cleanup(given) is cleanup
    assert definitions.lacks_accepted_names(given) is look
    assert definitions.needs_reconcile(given) is (cleanup or look)


def test_a_cleaned_definition_keeps_other_finalizers() -> None:
    given = definition(CLEANUP_FINALIZER, "other", going=True)
    assert definitions.without_finalizer(given)["metadata"]["finalizers"] == ["other"]
    assert given["metadata"]["finalizers"] == [CLEANUP_FINALIZER, "other"]


@pytest.mark.parametrize(
    ("finalizers", "going", "expected"),
    [([CONTENT_FINALIZER], True, True), ([CONTENT_FINALIZER], False, False), (["other"], True, False)],
)
def test_which_logical_clusters_go(finalizers: list[str], going: bool, expected: bool) -> None:
    metadata: dict[str, Any] = {"name": "c", "finalizers": finalizers}
    if going:
        metadata["deletionTimestamp"] = GOING
    assert clusters.is_terminating({"metadata": metadata}) is expected
    assert CONTENT_FINALIZER not in clusters.without_finalizer({"metadata": metadata})["metadata"]["finalizers"]
