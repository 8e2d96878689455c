"""Import, negotiation, conditions and serving of APIs: decisions, without a server."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.kinds.apiextensions.openapi_import import schema_digest
from shoal.kinds.workload.apiresource import GVR, import_name, is_negotiated, negotiated_name, parse_resource
from shoal.sync.importer.decide import Offer, decide, schema_object
from shoal.sync.negotiation.crd import desired_crd, import_spec_from_crd
from shoal.sync.negotiation.decide import (
    ServedState,
    is_withdrawable,
    negotiation_conditions,
    new_negotiated_resource,
    offered_schemas,
    updated_negotiated_resource,
)
from shoal.sync.negotiation.lcd import NegotiatedSpec, OfferedSchema, check_against, negotiate

Object = dict[str, Any]

API = GVR("example.com", "v1", "widgets")
CLUSTER = {"metadata": {"name": "east", "uid": "u-1"}}
STRING, INTEGER = {"type": "string"}, {"type": "integer"}


def of(**properties: Object) -> Object:
    return {"type": "object", "properties": properties}


AB, A, B, ABC = of(a=STRING, b=STRING), of(a=STRING), of(b=STRING), of(a=STRING, b=STRING, c=STRING)


def offer(schema: Object) -> Offer:
    return Offer(API, "Widget", True, schema, schema_digest(schema), subresources=({"name": "status"},))


def import_of(name: str, schema: Object = AB, created: str = "2026-01-01T00:00:00Z", **spec: object) -> Object:
    cluster = {"metadata": {"name": name, "uid": f"u-{name}"}}
    made = decide(cluster, [offer(schema)], []).create[0]
    metadata = {**made["metadata"], "uid": f"i-{name}", "creationTimestamp": created, "generation": 1}
    return {**made, "metadata": metadata, "spec": {**made["spec"], **spec}}


def offers(**schemas: Object) -> list[OfferedSchema]:
    """By name; they came in that order."""
    return [
        OfferedSchema(name, {**import_of(name)["spec"], "openAPIV3Schema": schema}) for name, schema in schemas.items()
    ]


def strategy(found: list[OfferedSchema], name: str, chosen: str) -> list[OfferedSchema]:
    return [
        OfferedSchema(one.name, {**one.spec, "schemaUpdateStrategy": chosen}) if one.name == name else one
        for one in found
    ]


def agreed(found: NegotiatedSpec) -> Object:
    assert found.spec is not None
    assert found.spec["schemaDigest"] == schema_digest(found.spec["openAPIV3Schema"])
    schema: Object = found.spec["openAPIV3Schema"]
    return schema


def test_names() -> None:
    assert import_name(API, "east") == "widgets.east.v1.example.com"
    assert negotiated_name(API) == "widgets.v1.example.com"
    assert negotiated_name(GVR("", "v1", "pods")) == "pods.v1.core"
    assert parse_resource("deployments.apps") == ("deployments", "apps")
    assert parse_resource("pods") == parse_resource("pods.core") == ("pods", "")
    assert parse_resource("*") == ("*", "*")
    assert parse_resource("*.apps") == ("*", "apps")


def test_imports_follow_what_is_offered() -> None:
    made = decide(CLUSTER, [offer(AB)], []).create[0]
    assert "openAPIV3Schema" not in made["spec"]
    assert made["spec"]["schemaDigest"] == schema_object(offer(AB))["metadata"]["name"]
    assert made["metadata"]["ownerReferences"][0]["uid"] == "u-1"
    assert made["metadata"]["labels"] == {"workloads.kcp.dev/cluster": "east"}
    assert made["spec"]["schemaUpdateStrategy"] == "UpdateUnpublished"
    found = import_of("east", schemaUpdateStrategy="UpdateNever")
    assert decide(CLUSTER, [offer(AB)], [found]) == decide(CLUSTER, [], [])
    assert decide(CLUSTER, [], [found]).delete == (found,)
    update = decide(CLUSTER, [offer(A)], [found]).update[0]
    assert update["spec"]["schemaDigest"] == schema_digest(A)
    assert update["spec"]["schemaUpdateStrategy"] == "UpdateNever"


# --- agreements ---


def test_the_first_is_what_is_agreed_and_others_narrow_it_until_it_is_published() -> None:
    assert agreed(negotiate(None, False, offers(east=AB))) == AB
    both = negotiate(None, False, offers(east=AB, west=A))
    assert agreed(both) == A
    assert both.problems == {"east": (), "west": ()}
    assert negotiate(None, False, []).spec is None


def test_what_is_published_is_narrowed_by_leave_only() -> None:
    current = negotiate(None, False, offers(east=AB)).spec
    found = offers(east=AB, west=A)
    refused = negotiate(current, True, found)
    assert agreed(refused) == AB
    assert refused.problems == {"east": (), "west": ("b: is missing",)}
    assert agreed(negotiate(current, True, strategy(found, "west", "UpdatePublished"))) == A
    never = negotiate(current, False, strategy(found, "west", "UpdateNever"))
    assert never.problems["west"] == ("b: is missing",)
    assert negotiate(current, False, strategy(found, "west", "")).problems["west"]


def test_it_widens_again_when_the_narrowest_leaves_or_widens() -> None:
    narrow = negotiate(None, False, offers(east=AB, west=A)).spec
    assert agreed(negotiate(narrow, True, offers(east=AB))) == AB
    assert agreed(negotiate(narrow, True, offers(east=AB, west=ABC))) == AB
    assert agreed(negotiate(narrow, True, offers(east=ABC))) == ABC


def test_an_import_that_becomes_narrower_is_out_or_narrows() -> None:
    current = negotiate(None, False, offers(east=AB, west=AB)).spec
    out = negotiate(current, True, offers(east=AB, west=A))
    assert (agreed(out), out.problems["west"]) == (AB, ("b: is missing",))
    alone = negotiate(current, True, offers(west=A))
    assert (agreed(alone), alone.problems["west"]) == (AB, ("b: is missing",))
    freely = negotiate(current, True, strategy(offers(west=A), "west", "UpdatePublished"))
    assert (agreed(freely), freely.problems["west"]) == (A, ())


def test_a_conflict_is_told_whatever_the_strategy_and_hurts_nobody_else() -> None:
    current = negotiate(None, False, offers(east=AB)).spec
    found = strategy(offers(east=AB, west=of(a=INTEGER), north=A), "north", "UpdatePublished")
    told = negotiate(current, True, strategy(found, "west", "UpdatePublished"))
    assert agreed(told) == A
    assert told.problems["west"][0] == "a: the type is integer, not string"
    assert told.problems["north"] == ()


def test_a_schema_that_is_none_stops_nobody_else() -> None:
    found = negotiate(None, False, offers(east=AB, west={"type": "object", "required": 5}, north=A))
    assert agreed(found) == A
    assert found.problems == {"east": (), "west": ("cannot decode the schema",), "north": ()}


def test_an_agreement_settles_at_once() -> None:
    for schemas in ([AB, A], [A, B, ABC], [ABC, AB, of(a=INTEGER)]):
        found = offers(**{f"c{number}": schema for number, schema in enumerate(schemas)})
        once = negotiate(None, False, found)
        for published in (False, True):
            assert negotiate(once.spec, published, found) == once


def test_one_whose_schema_is_not_known_keeps_what_is_agreed() -> None:
    narrow = negotiate(None, False, offers(east=AB, west=A)).spec
    unknown = OfferedSchema("west", import_of("west")["spec"])
    found = negotiate(narrow, True, [*offers(east=AB), unknown])
    assert agreed(found) == A
    assert "west" not in found.problems


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"scope": "Cluster"}, "scope is Cluster, not Namespaced"),
        ({"kind": "Gadget"}, "kind is Gadget, not Widget"),
        ({"subResources": []}, "the subresource status is missing"),
    ],
)
def test_scope_names_and_subresources_are_compared(other: Object, said: str) -> None:
    first, second = offers(east=AB, west=AB)
    second = OfferedSchema("west", {**second.spec, **other})
    found = negotiate(negotiate(None, False, [first]).spec, True, [first, second])
    assert found.problems == {"east": (), "west": (said,)}


def test_scale_by_other_paths_is_another_scale() -> None:
    def scaled(name: str, path: str) -> OfferedSchema:
        sub = {"name": "scale", "specReplicasPath": path}
        return OfferedSchema(name, {**offers(east=AB)[0].spec, "subResources": [sub]})

    found = negotiate(None, False, [scaled("east", ".spec.a"), scaled("west", ".spec.b")])
    assert found.spec is not None
    assert found.spec["subResources"] == []
    refused = negotiate(negotiate(None, False, [scaled("east", ".spec.a")]).spec, True, [scaled("west", ".spec.b")])
    assert refused.problems["west"] == ("the subresource scale has other paths",)


def test_short_names_and_categories_are_those_all_have() -> None:
    first, second = offers(east=AB, west=AB)
    one = OfferedSchema("east", {**first.spec, "shortNames": ["w", "wd"], "categories": ["all"]})
    other = OfferedSchema("west", {**second.spec, "shortNames": ["wd"], "categories": ["all", "toys"]})
    found = negotiate(None, False, [one, other])
    assert found.spec is not None
    assert (found.spec["shortNames"], found.spec["categories"]) == (["wd"], ["all"])


# --- what is told and served ---


def negotiated(publish: bool = True, schema: Object = AB) -> Object:
    made = new_negotiated_resource(API, negotiate(None, False, offers(east=schema)), publish)
    assert made is not None
    return made


def told(conditions: Any) -> dict[str, tuple[str, str]]:
    return {c.type: (c.status, c.reason) for c in conditions}


def test_the_schema_of_an_import_is_found_by_its_digest() -> None:
    later, sooner = import_of("a", created="2026-01-02T00:00:00Z"), import_of("b")
    found = offered_schemas([later, sooner], {schema_digest(AB): AB})
    assert [one.name for one in found] == ["widgets.b.v1.example.com", "widgets.a.v1.example.com"]
    assert found[0].spec["openAPIV3Schema"] == AB
    assert not offered_schemas([later], {})[0].has_schema


def test_conditions_of_a_kind_the_hub_serves_by_itself() -> None:
    found, agreement = offers(east=AB), negotiate(None, False, offers(east=AB))
    waiting = negotiation_conditions(negotiated(), found, agreement, ServedState(is_builtin=True))
    assert told(waiting.negotiated)["Published"] == ("False", "NotServedYet")
    done = negotiation_conditions(negotiated(), found, agreement, ServedState(is_builtin=True, is_listed=True))
    assert told(done.negotiated) == {
        "Submitted": ("True", "Submitted"),
        "Published": ("True", "Served"),
        "Enforced": ("False", "Negotiated"),
    }
    assert told(done.imports["east"]) == {"Compatible": ("True", "Compatible"), "Available": ("True", "Served")}
    private = negotiation_conditions(negotiated(publish=False), found, agreement, ServedState(is_builtin=True))
    assert told(private.negotiated)["Published"] == told(private.imports["east"])["Available"] == ("False", "NotAsked")
    core = negotiated()
    core["spec"]["groupVersion"] = {"group": "", "version": "v1"}
    assert told(negotiation_conditions(core, [], agreement, ServedState()).negotiated)["Published"] == (
        "False",
        "CannotBeServed",
    )


def test_a_definition_that_is_refused_is_told() -> None:
    found, agreement = offers(east=AB), negotiate(None, False, offers(east=AB))
    refused = negotiation_conditions(negotiated(), found, agreement, ServedState(refused_reason="spec.names: no"))
    assert (
        told(refused.negotiated)["Submitted"] == told(refused.negotiated)["Published"] == ("False", "DefinitionRefused")
    )
    conflict = {"type": "NamesAccepted", "status": "False", "message": '"Widget" is already in use'}
    crd = {**desired_crd([negotiated()], None), "status": {"conditions": [conflict]}}  # type: ignore[dict-item]
    [_, published, _] = negotiation_conditions(negotiated(), found, agreement, ServedState(crd=crd)).negotiated
    assert (published.reason, published.message) == ("DefinitionRefused", '"Widget" is already in use')


def test_an_import_that_does_not_fit_is_told_which_fields() -> None:
    many = of(**dict.fromkeys("abcdefg", STRING))
    agreement = check_against({**offers(east=many)[0].spec}, offers(east=many, west=of()))
    [compatible, _] = negotiation_conditions(
        negotiated(), offers(east=many, west=of()), agreement, ServedState()
    ).imports["west"]
    names = ("a", "b", "c", "d", "e")
    assert compatible.message == "; ".join([*(f"{name}: is missing" for name in names), "and 2 more"])
    [unknown, _] = negotiation_conditions(negotiated(), offers(north=A), agreement, ServedState()).imports["north"]
    assert (unknown.status, unknown.reason) == ("Unknown", "SchemaUnknown")


def test_what_was_agreed_is_written_only_when_it_changes() -> None:
    had = negotiated()
    assert updated_negotiated_resource(had, negotiate(had["spec"], True, offers(east=AB))) is None
    new = updated_negotiated_resource(had, negotiate(None, False, offers(east=A)))
    assert new is not None
    assert new["spec"]["openAPIV3Schema"] == A
    assert new["spec"]["publish"] is True


def test_a_definition_by_hand_decides() -> None:
    by_hand = desired_crd([negotiated(schema=ABC)], None)
    assert by_hand is not None
    del by_hand["metadata"]["annotations"]
    spec = import_spec_from_crd(by_hand, API, negotiated()["spec"])
    assert spec is not None
    assert spec["openAPIV3Schema"] == ABC
    assert import_spec_from_crd(by_hand, GVR("example.com", "v2", "widgets"), negotiated()["spec"]) is None
    found = check_against(spec, offers(east=AB, west=ABC))
    assert found.problems == {"east": ("c: is missing",), "west": ()}
    said = negotiation_conditions(negotiated(), offers(east=AB), found, ServedState(is_listed=True, crd=by_hand))
    assert told(said.negotiated)["Enforced"] == ("True", "ManualDefinition")
    assert said.imports["east"][0].message == "c: is missing (a manually created CRD defines the schema)"


def test_the_definition_has_all_versions_that_are_published() -> None:
    one = negotiated()
    two = negotiated(schema=A)
    two["spec"] = {**two["spec"], "groupVersion": {"group": "example.com", "version": "v2beta1"}}
    made = desired_crd([two, one], None)
    assert made is not None
    assert made["metadata"]["name"] == "widgets.example.com"
    assert [(v["name"], v["storage"]) for v in made["spec"]["versions"]] == [("v1", True), ("v2beta1", False)]
    assert made["spec"]["versions"][0]["subresources"] == {"status": {}}
    assert desired_crd([one, two], made) is None
    # A version that objects may be stored in cannot go; it is served no more.
    stored_in = {**made, "status": {"storedVersions": ["v1"]}}
    left = desired_crd([two], stored_in)
    assert left is not None
    assert [(v["name"], v["served"], v["storage"]) for v in left["spec"]["versions"]] == [
        ("v2beta1", True, True),
        ("v1", False, False),
    ]
    other = {**two, "spec": {**two["spec"], "scope": "Cluster"}}
    only = desired_crd([one, other], None)
    assert only is not None
    assert [v["name"] for v in only["spec"]["versions"]] == ["v1"]


def test_only_what_negotiation_made_is_withdrawn() -> None:
    assert is_withdrawable(negotiated(), [])
    assert not is_withdrawable(negotiated(), [import_of("east")])
    assert not is_withdrawable({"metadata": {"name": "by-hand"}}, [])


@pytest.mark.parametrize(
    ("compatible", "available", "settled"),
    [
        ({}, {}, False),
        ({"status": "Unknown"}, {"status": "False", "reason": "NotServedYet"}, False),
        ({"status": "True"}, {"status": "False", "reason": "NotServedYet"}, False),
        ({"status": "True"}, {"status": "False", "reason": "NotAsked"}, True),
        ({"status": "True"}, {"status": "True", "reason": "Served"}, True),
        ({"status": "False"}, {"status": "False", "reason": "NotServedYet"}, True),
        ({"status": "True", "observedGeneration": 1}, {"status": "True", "reason": "Served"}, False),
    ],
)
def test_when_an_import_is_settled(compatible: Object, available: Object, settled: bool) -> None:
    conditions = [{"type": "Compatible", "observedGeneration": 2, **compatible}, {"type": "Available", **available}]
    given = [condition for condition in conditions if "status" in condition]
    assert is_negotiated({"metadata": {"generation": 2}, "status": {"conditions": given}}) is settled
