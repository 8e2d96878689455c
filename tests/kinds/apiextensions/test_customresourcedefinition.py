"""CustomResourceDefinitions: defaults, accessors, version order, names and conditions."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.kinds.apiextensions.customresourcedefinition import (
    accepted_names,
    approval_condition,
    default_crd,
    deprecation_warning,
    format_warnings,
    has_status,
    printer_columns,
    record_stored_version,
    scale_subresource,
    schema_of,
    selectable_fields,
    served_versions,
    set_condition,
    version_priority,
)

Object = dict[str, Any]


def crd(plural: str = "widgets", kind: str = "Widget", group: str = "example.com", **names: Any) -> Object:
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind, **names},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
            ],
        },
    }


def with_accepted_names(made: Object) -> Object:
    default_crd(made)
    made["status"]["acceptedNames"], _ = accepted_names(made, [])
    return made


def test_defaults() -> None:
    made = crd()
    default_crd(made)
    assert made["spec"]["names"] == {
        "plural": "widgets",
        "kind": "Widget",
        "singular": "widget",
        "listKind": "WidgetList",
    }
    assert made["spec"]["conversion"] == {"strategy": "None"}
    assert made["status"] == {"storedVersions": ["v1"]}
    given = crd(singular="one", listKind="Many")
    given["status"] = {"storedVersions": ["v0"]}
    default_crd(given)
    assert given["spec"]["names"]["singular"] == "one"
    assert given["spec"]["names"]["listKind"] == "Many"
    assert given["status"] == {"storedVersions": ["v0"]}
    record_stored_version(given)
    record_stored_version(given)
    assert given["status"] == {"storedVersions": ["v0", "v1"]}


def test_version_priority() -> None:
    ordered = ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10", "v1x"]
    assert sorted(ordered, key=version_priority) == ordered


def test_served_versions_and_deprecation() -> None:
    made = crd()
    made["spec"]["versions"] = [
        {"name": "v1alpha1", "served": True, "deprecated": True},
        {"name": "v1beta1", "served": True, "deprecated": True, "deprecationWarning": "soon gone"},
        {"name": "v3", "served": False},
        {"name": "v2", "served": True, "deprecated": True},
        {"name": "v1", "served": True},
    ]
    assert served_versions(made) == ["v2", "v1", "v1beta1", "v1alpha1"]
    assert (
        deprecation_warning(made, "v1alpha1") == "example.com/v1alpha1 Widget is deprecated; use example.com/v1 Widget"
    )
    assert deprecation_warning(made, "v1beta1") == "soon gone"
    assert deprecation_warning(made, "v2") == "example.com/v2 Widget is deprecated"
    assert deprecation_warning(made, "v1") == ""


def test_accessors() -> None:
    made = crd()
    made["spec"]["versions"][0] |= {
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}},
        "selectableFields": [{"jsonPath": ".spec.color"}],
    }
    assert has_status(made, "v1")
    assert not has_status(made, "v2")
    assert scale_subresource(made, "v1") == {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}
    assert scale_subresource(made, "v2") is None
    assert selectable_fields(made, "v1") == ["spec.color"]
    assert schema_of(made, "v1") == {"type": "object"}
    assert [column["name"] for column in printer_columns(made, "v1")] == ["Age"]
    made["spec"]["versions"][0]["additionalPrinterColumns"] = [
        {"name": "Color", "type": "string", "jsonPath": ".spec.color"}
    ]
    assert [column["name"] for column in printer_columns(made, "v1")] == ["Color"]


def test_formats_nobody_checks_are_warned_about_once() -> None:
    made = crd()
    inner = {"a": {"type": "string", "format": "date"}, "b": {"type": "integer", "format": "uint8"}}
    made["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {"type": "object", "properties": inner}
    assert format_warnings(made) == ['unrecognized format "uint8"']
    assert format_warnings(made, made) == []


def test_names_without_conflict_are_accepted_and_established() -> None:
    made = crd(shortNames=["w"], categories=["all"])
    default_crd(made)
    names, conditions = accepted_names(made, [made, crd("others", "Other", "other.org")])
    assert names == {
        "plural": "widgets", "singular": "widget", "shortNames": ["w"], "kind": "Widget", "listKind": "WidgetList",
        "categories": ["all"],
    }  # fmt: skip
    assert conditions == [
        {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": "no conflicts found"},
        {
            "type": "Established",
            "status": "True",
            "reason": "InitialNamesAccepted",
            "message": "the initial names have been accepted",
        },
    ]


@pytest.mark.parametrize(
    ("asked", "reason", "message", "missing"),
    [
        (crd("gadgets", "Gadget2"), "PluralConflict", '"gadgets" is already in use', "plural"),
        (crd("g2", "Gadget2", singular="gadget"), "SingularConflict", '"gadget" is already in use', "singular"),
        (crd("g2", "Gadget2", shortNames=["g", "x"]), "ShortNamesConflict", '"g" is already in use', "shortNames"),
        (
            crd("g2", "Gadget2", shortNames=["g", "gadgets"]),
            "ShortNamesConflict",
            '["g" is already in use, "gadgets" is already in use]',
            "shortNames",
        ),
        (crd("g2", "Gadget", singular="g2"), "ListKindConflict", '"GadgetList" is already in use', "kind"),
        (crd("g2", "Gadget", singular="g2", listKind="L"), "KindConflict", '"Gadget" is already in use', "kind"),
    ],
)
def test_conflicts(asked: Object, reason: str, message: str, missing: str) -> None:
    owner = with_accepted_names(crd("gadgets", "Gadget", shortNames=["g"]))
    owner["metadata"]["name"] = "first"
    default_crd(asked)
    names, (naming, established) = accepted_names(asked, [owner])
    assert (naming["status"], naming["reason"], naming["message"]) == ("False", reason, message)
    assert missing not in names
    assert (established["status"], established["reason"]) == ("False", "NotAccepted")
    assert established["message"] == "not all names are accepted"


def test_builtins_own_their_names() -> None:
    asked = crd("deployments", "Deploy", "apps")
    default_crd(asked)
    taken = [{"plural": "deployments", "singular": "deployment", "shortNames": ["deploy"], "kind": "Deployment"}]
    _, (naming, _) = accepted_names(asked, [], taken)
    assert (naming["reason"], naming["message"]) == ("SingularConflict", '"deploy" is already in use')


def test_what_was_established_stays_so() -> None:
    mine = with_accepted_names(crd("gadgets", "Gadget"))
    set_condition(
        mine, {"type": "Established", "status": "True", "reason": "r", "message": "m"}, "2024-01-01T00:00:00Z"
    )
    thief = with_accepted_names(crd("gadgets", "Gadget"))
    thief["metadata"]["name"] = "thief"
    names, (naming, established) = accepted_names(mine, [thief])
    assert names == mine["status"]["acceptedNames"]
    assert naming["status"] == established["status"] == "True"
    mine["spec"]["names"]["shortNames"] = ["gadget"]
    thief["status"]["acceptedNames"]["shortNames"] = ["gadget"]
    _, (naming, established) = accepted_names(mine, [thief])
    assert (naming["status"], established["status"]) == ("False", "True")


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    made = crd()
    for status, now in (("True", "t1"), ("True", "t2"), ("False", "t3")):
        set_condition(made, {"type": "Established", "status": status, "reason": now, "message": ""}, now)
        told = made["status"]["conditions"]
        assert [(c["reason"], c["lastTransitionTime"]) for c in told] == [(now, "t3" if now == "t3" else "t1")]


@pytest.mark.parametrize(
    ("said", "status", "reason"),
    [
        ("", "False", "MissingAnnotation"),
        ("unapproved, for a test", "False", "UnapprovedAnnotation"),
        ("https://github.com/kubernetes/kubernetes/pull/1", "True", "ApprovedAnnotation"),
        ("nonsense", "False", "InvalidAnnotation"),
    ],
)
def test_protected_groups(said: str, status: str, reason: str) -> None:
    made = crd(group="example.k8s.io")
    made["metadata"]["annotations"] = {"api-approved.kubernetes.io": said}
    state = approval_condition(made)
    assert state is not None
    assert (state["type"], state["status"], state["reason"]) == (
        "KubernetesAPIApprovalPolicyConformant",
        status,
        reason,
    )
    assert approval_condition(crd()) is None
