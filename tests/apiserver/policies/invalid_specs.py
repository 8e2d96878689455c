"""Policies and bindings that are rejected."""

from __future__ import annotations

from typing import Any

from tests.apiserver.policies.cases import Object, apply, check, condition, patch, variables

RULE: Object = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
MATCH: Object = {"matchConstraints": {"resourceRules": [RULE]}}


FINE = {"variable-object"}
"""Looks wrong, and is not: what fields a variable has is not known."""


def annotation(text: Any, key: str = "k") -> Object:
    return {"auditAnnotations": [{"key": key, "valueExpression": text}]}


VALIDATING: dict[str, Object] = {
    "nothing": {},
    "no-rules": {**check("true"), "matchConstraints": {}},
    "syntax": check("object.("),
    "not-bool": check("1 + 1"),
    "dyn": check("object.data"),
    "null": check("null"),
    "time": check("timestamp('2020-01-01T00:00:00Z')"),
    "optional": check("object.?a"),
    "list": check("[1]"),
    "map": check("{'a': duration('1s')}"),
    "type": check("type(1)"),
    "undeclared": check("nobody == 1"),
    "no-variables": check("variables.x == 1"),
    "no-params": check("params.x == 1"),
    "overload": check("request.name + 1 == 2"),
    "request-field": check("request.object.x == 1"),
    "namespace-field": check("namespaceObject.metadata.managedFields == 1"),
    "no-objects": check("Object{} == Object{}"),
    "authorizer": check("authorizer.group('').check('x').allowed()"),
    "authorizer-type": check("authorizer.requestResource"),
    "self": check("self == 1"),
    "empty": check("  "),
    "bad-regex": check("object.data.k.matches('[')"),
    "bad-find": check("'x'.find('[') == ''"),
    "bad-duration": check("duration('x') == duration('1s')"),
    "message-lines": check("true", message="a\nb"),
    "message-blank": check("true", message="  "),
    "message-type": check("true", messageExpression="1"),
    "message-blank-expression": check("true", messageExpression="  "),
    "message-authorizer": check("true", messageExpression="authorizer.path('/x').check('get').reason()"),
    "message-syntax": check("true", messageExpression="'a"),
    "reason": check("true", reason="Teapot"),
    "condition-type": {**check("true"), **condition("'x'")},
    "condition-name": {**check("true"), "matchConditions": [{"name": "a b", "expression": "nobody"}]},
    "condition-twice": {**check("true"), "matchConditions": [{"name": "a", "expression": "true"}] * 2},
    "condition-variables": {**check("true"), **condition("variables.x"), **variables(x="true")},
    "variable-name": {**check("true"), "variables": [{"name": "a-b", "expression": "1"}]},
    "variable-reserved": {**check("true"), "variables": [{"name": "namespace", "expression": "1"}]},
    "variable-empty": {**check("true"), "variables": [{"name": "", "expression": ""}]},
    "variable-syntax": {**check("true"), **variables(a="1 +")},
    "variable-order": {**check("variables.a == 1"), **variables(a="variables.b", b="1")},
    "variable-type": {**check("variables.a == 'x'"), **variables(a="1")},
    "variable-list": {**check("variables.a[0] == 'x'"), **variables(a="[1, 2].map(x, x + 1)")},
    "variable-object": {**check("variables.a.b == 'x'"), **variables(a="request.kind")},
    "annotation-type": annotation("1"),
    "annotation-key": annotation("'x'", "a b"),
    "annotation-empty": annotation(" "),
    "annotation-long": annotation("'" + "x" * 6000 + "'"),
    "annotation-twice": {"auditAnnotations": [{"key": "k", "valueExpression": "'x'"}] * 2},
    "param-kind": {**check("true"), "paramKind": {"apiVersion": "a/b/c", "kind": "X"}},
    "param-kind-empty": {**check("true"), "paramKind": {}},
    "param-kind-group": {**check("true"), "paramKind": {"apiVersion": "A_b/v1", "kind": "X y"}},
    "param-kind-version": {**check("true"), "paramKind": {"apiVersion": "a/", "kind": "X"}},
    "failure-policy": {**check("true"), "failurePolicy": "Maybe"},
    "names-twice": {
        **check("true"),
        "matchConstraints": {"resourceRules": [{**RULE, "resourceNames": ["a", "a", "b/c"]}]},
    },
    "match-policy": {**check("true"), "matchConstraints": {"resourceRules": [RULE], "matchPolicy": "Nearly"}},
}
MUTATING: dict[str, Object] = {
    "nothing": {},
    "no-reinvocation": {"mutations": apply("Object{}")["mutations"]},
    "reinvocation": apply("Object{}", reinvocationPolicy="Always"),
    "no-mutations": {"reinvocationPolicy": "Never"},
    "no-patch-type": {"reinvocationPolicy": "Never", "mutations": [{}]},
    "patch-type": {"reinvocationPolicy": "Never", "mutations": [{"patchType": "Merge"}]},
    "no-patch": {"reinvocationPolicy": "Never", "mutations": [{"patchType": "JSONPatch"}]},
    "no-configuration": {"reinvocationPolicy": "Never", "mutations": [{"patchType": "ApplyConfiguration"}]},
    "both": {
        "reinvocationPolicy": "Never",
        "mutations": [
            {
                "patchType": "JSONPatch",
                "jsonPatch": {"expression": "[JSONPatch{}]"},
                "applyConfiguration": {"expression": "Object{}"},
            }
        ],
    },
    "empty": apply(" "),
    "empty-patch": patch(" "),
    "not-object": apply("'x'"),
    "inner-object": apply("Object.spec{}"),
    "not-list": patch("JSONPatch{}"),
    "empty-list": patch("[]"),
    "of-strings": patch("['x']"),
    "unknown-struct": apply("Frob{}"),
    "op-type": patch("[JSONPatch{op: 1}]"),
    "unknown-field": patch("[JSONPatch{opp: 'x'}]"),
    "syntax": apply("Object{a: }"),
    "mixed": apply("true ? Object{} : Object.spec{}"),
    "optional-field": apply("Object{?a: 1}"),
    "deletes": {**apply("Object{}"), "matchConstraints": {"resourceRules": [{**RULE, "operations": ["DELETE"]}]}},
    "variable": {**apply("Object{a: variables.x}"), **variables(x="Object{}")},
    "condition": apply("Object{}", **condition("Object{} == Object{}")),
}
BINDINGS: dict[str, Object] = {
    "nothing": {},
    "actions": {"policyName": "p", "validationActions": ["Deny", "Warn", "Deny", "Frob"]},
    "no-name": {"policyName": "p", "validationActions": ["Deny"], "paramRef": {"parameterNotFoundAction": "Deny"}},
    "both": {
        "policyName": "p",
        "validationActions": ["Deny"],
        "paramRef": {"name": "a/b", "selector": {}, "parameterNotFoundAction": "Perhaps"},
    },
    "no-action": {"policyName": "P!", "validationActions": ["Deny"], "paramRef": {"name": "a"}},
}
