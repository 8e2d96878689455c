"""CEL rules of a CRD over the wire: rejected objects, immutable fields, ratcheting, invalid rules."""

from __future__ import annotations

from typing import Any

from tests.serving import Answer, Cluster

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GADGETS = "/apis/rules.example.com/v1/namespaces/default/gadgets"
KEY = "x-kubernetes-validations"


def definition(*rules: dict[str, Any], **properties: Any) -> dict[str, Any]:
    spec = {"type": "object", "properties": properties, KEY: list(rules)}
    status = {"type": "object", "properties": {"ready": {"type": "integer"}}}
    whole = {"rule": "!has(self.status) || self.status.ready <= self.spec.size", "message": "more ready than there are"}
    schema = {"type": "object", "properties": {"spec": spec, "status": status}, KEY: [whole]}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.rules.example.com"},
        "spec": {
            "group": "rules.example.com",
            "scope": "Namespaced",
            "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [version],
        },
    }


def gadget(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "rules.example.com/v1", "kind": "Gadget", "metadata": {"name": "a"}, "spec": spec}


def failed(answer: Answer) -> Any:
    assert answer.status == 422, answer.body
    return answer.json


SIZE = {"type": "integer"}
FIXED = {"type": "string", KEY: [{"rule": "self == oldSelf", "message": "is immutable"}]}
SMALL = {"rule": "self.size < 10", "messageExpression": "'size %d is too large'.format([self.size])"}


def test_rules_decide(cluster: Cluster) -> None:
    cluster.post(DEFINITIONS, definition(SMALL, size=SIZE, color=FIXED)).ok()
    refused = failed(cluster.post(GADGETS, gadget(size=11, color="red")))
    assert refused["message"] == ('Gadget.rules.example.com "a" is invalid: spec: Invalid value: size 11 is too large')
    made = cluster.post(GADGETS, gadget(size=5, color="red")).ok()
    made["spec"]["color"] = "blue"
    refused = failed(cluster.put(f"{GADGETS}/a", made))
    assert refused["details"]["causes"] == [
        {"reason": "FieldValueInvalid", "message": 'Invalid value: "blue": is immutable', "field": "spec.color"}
    ]
    made["spec"]["color"] = "red"
    made["status"] = {"ready": 6}
    refused = failed(cluster.put(f"{GADGETS}/a/status", made))
    assert "<nil>: Invalid value: more ready than there are" in refused["message"]
    made["status"] = {"ready": 5}
    cluster.put(f"{GADGETS}/a/status", made).ok()


def test_what_was_wrong_before_the_rule_came_is_let_through_with_a_warning(cluster: Cluster) -> None:
    free = definition(size=SIZE)
    cluster.post(DEFINITIONS, free).ok()
    cluster.post(GADGETS, gadget(size=11)).ok()
    stored = cluster.get(f"{DEFINITIONS}/gadgets.rules.example.com").ok()
    stored["spec"]["versions"] = definition(SMALL, size=SIZE)["spec"]["versions"]
    cluster.put(f"{DEFINITIONS}/gadgets.rules.example.com", stored).ok()
    made = cluster.get(f"{GADGETS}/a").ok()
    made["metadata"]["labels"] = {"x": "y"}
    answer = cluster.put(f"{GADGETS}/a", made)
    answer.ok()
    assert "spec: Invalid value: size 11 is too large" in answer.headers["warning"]


def test_a_definition_with_a_bad_rule_is_refused(cluster: Cluster) -> None:
    wrong = failed(cluster.post(DEFINITIONS, definition({"rule": "self.sise < 10"}, size=SIZE)))
    assert "undefined field 'sise'" in wrong["message"]
    dear = {"rule": "self.l.all(a, self.l.all(b, a == b))"}
    lists = {"type": "array", "items": {"type": "string"}}
    costly = failed(cluster.post(DEFINITIONS, definition(dear, size=SIZE, l=lists)))
    assert "estimated rule cost exceeds budget by factor of more than 100x" in costly["message"]
