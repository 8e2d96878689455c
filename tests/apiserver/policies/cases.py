"""Policies and what is written under them: asked of Shoal alone, and of kube-apiserver and Shoal alike.

Each case is about objects with its label, so that all policies can stand in one cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.serving import Answer, Cluster

Object = dict[str, Any]

REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
BUSY = "[1,2,3,4,5,6,7,8,9,10]"
HEAVY = f"{BUSY}.all(a, {BUSY}.all(b, {BUSY}.all(c, {BUSY}.all(d, {BUSY}.all(e, a + b + c + d + e > 0)))))"
LOOP = f"{BUSY}.all(f, {HEAVY})"
"""Both cost more than an expression may."""


@dataclass(frozen=True)
class Case:
    spec: Object
    """Of the policy; it gets its matchConstraints from `match`."""
    binding: Object = field(default_factory=dict)
    match: Object = field(default_factory=dict)
    data: Object = field(default_factory=lambda: {"k": "v"})
    deployment: bool = False


def check(expression: str, **more: object) -> Object:
    return {"validations": [{"expression": expression, **more}]}


def apply(expression: str, **more: object) -> Object:
    made = [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}]
    return {"mutations": made, "reinvocationPolicy": "Never", **more}


def patch(*expressions: str, **more: object) -> Object:
    made = [{"patchType": "JSONPatch", "jsonPatch": {"expression": each}} for each in expressions]
    return {"mutations": made, "reinvocationPolicy": "Never", **more}


def container(fields: str) -> str:
    """A configuration with one container."""
    made = f"Object.spec.template.spec{{containers: [Object.spec.template.spec.containers{{{fields}}}]}}"
    return f"Object{{spec: Object.spec{{template: Object.spec.template{{spec: {made}}}}}}}"


def condition(expression: str) -> Object:
    return {"matchConditions": [{"name": "c", "expression": expression}]}


def variables(**named: str) -> Object:
    return {"variables": [{"name": name, "expression": text} for name, text in named.items()]}


PARAMS: Object = {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}
DENIED = "object.data.k == 'w'"

VALIDATING: dict[str, Case] = {
    "allows": Case(check("object.data.k == 'v'")),
    "denies": Case(check(DENIED)),
    "denies-with-words": Case(check(DENIED, message="  k must be w ")),
    "denies-forbidden": Case(check(DENIED, message="no", reason="Forbidden")),
    "denies-too-large": Case(check(DENIED, reason="RequestEntityTooLarge")),
    "tells": Case(check(DENIED, message="no", messageExpression="'k is ' + object.data.k")),
    "tells-nothing": Case(check(DENIED, message="no", messageExpression="'  '")),
    "tells-two-lines": Case(check(DENIED, messageExpression="'a\\nb'")),
    "cannot-tell": Case(check(DENIED, message="no", messageExpression="string(object.data.missing)")),
    "second-denies": Case({"validations": [{"expression": "true"}, {"expression": "false", "message": "second"}]}),
    "errs": Case(check("object.data.missing == 'x'")),
    "errs-ignored": Case({**check("object.data.missing == 'x'"), "failurePolicy": "Ignore"}),
    "errs-and-denies": Case({"validations": [{"expression": "object.data.x == 'x'"}, {"expression": "false"}]}),
    "errs-ignored-and-denies": Case(
        {"validations": [{"expression": "object.data.x == 'x'"}, {"expression": "false"}], "failurePolicy": "Ignore"}
    ),
    "warns": Case(check(DENIED, message="mind"), {"validationActions": ["Warn"]}),
    "warns-and-audits": Case(check(DENIED, message="mind"), {"validationActions": ["Warn", "Audit"]}),
    "audits": Case(check(DENIED), {"validationActions": ["Audit"]}),
    "costs": Case(check(LOOP)),
    "costs-in-all": Case({"validations": [{"expression": HEAVY} for _ in range(24)]}),
    "unconditional": Case({**check("false"), **condition("false")}),
    "conditional": Case({**check("false", message="met"), **condition("request.operation == 'CREATE'")}),
    "undecided": Case({**check("true"), **condition("object.data.missing == 'x'")}),
    "undecided-ignored": Case({**check("false"), **condition("object.data.missing == 'x'"), "failurePolicy": "Ignore"}),
    "names": Case(
        {**check("variables.long", message="short"), **variables(n="size(object.data.k)", long="variables.n > 3")}
    ),
    "names-wrongly": Case({**check("variables.bad == 'x'"), **variables(bad="object.data.missing")}),
    "names-dearly": Case({**check("variables.dear"), **variables(dear=LOOP)}),
    "names-nothing": Case({**check("true || variables.bad"), **variables(bad="object.data.missing == 'x'")}),
    "request": Case(
        check(
            "false",
            messageExpression=" + ' ' + ".join(
                (
                    "string(request.name)",
                    "request.namespace",
                    "request.operation",
                    "request.resource.resource",
                    "request.kind.kind",
                    "string(request.dryRun)",
                    "string('system:masters' in request.userInfo.groups)",
                )
            ),
        )
    ),
    "subresource": Case(check("request.subResource == ''")),
    "options": Case(check("false", messageExpression="string(request.options.kind)")),
    "namespace": Case(
        check(
            "false",
            messageExpression="namespaceObject.metadata.name + namespaceObject.status.phase"
            " + namespaceObject.metadata.labels['kubernetes.io/metadata.name']",
        )
    ),
    "namespace-time": Case(check("namespaceObject.metadata.creationTimestamp < timestamp('2020-01-01T00:00:00Z')")),
    "namespace-uid": Case(check("namespaceObject.metadata.UID != ''")),
    "old": Case(check("oldObject == null", message="old")),
    "old-field": Case(check("oldObject.data.k == 'v'")),
    "metadata": Case(
        check("object.metadata.namespace == 'default' && object.kind == 'ConfigMap' && object.apiVersion == 'v1'")
    ),
    "escaped": Case(check("object.metadata.labels.foo__dash__bar == 'x'")),
    "allowed": Case(check("authorizer.group('').resource('pods').namespace('default').check('delete').allowed()")),
    "refused-account": Case(
        check(
            "authorizer.serviceAccount('default', 'nobody').group('').resource('pods').check('get').allowed()",
            message="may not",
        )
    ),
    "bad-account": Case(
        check("authorizer.serviceAccount('default', 'No Body').group('').resource('pods').check('get').allowed()")
    ),
    "path": Case(
        check("authorizer.serviceAccount('default', 'x').path('/healthz').check('get').allowed()", message="may not")
    ),
    "no-path": Case(check("authorizer.path('  ').check('get').allowed()")),
    "no-resource": Case(check("authorizer.group('').resource('').check('get').allowed()")),
    "request-resource": Case(check("authorizer.requestResource.check('create').allowed()")),
    "selectors": Case(
        check("authorizer.group('').resource('pods').fieldSelector('a=b').labelSelector('c=d').check('list').allowed()")
    ),
    "three-checks": Case(check("['a', 'b', 'c'].all(v, authorizer.group('').resource('pods').check(v).allowed())")),
    "params": Case(
        {**check("object.data.k == params.data.k", messageExpression="'must be ' + params.data.k"), **PARAMS},
        {"paramRef": {"name": "params", "parameterNotFoundAction": "Deny"}},
    ),
    "params-elsewhere": Case(
        {**check("object.data.k == params.data.k"), **PARAMS},
        {"paramRef": {"name": "params", "namespace": "kube-system", "parameterNotFoundAction": "Deny"}},
    ),
    "params-missing": Case(
        {**check("false"), **PARAMS}, {"paramRef": {"name": "none", "parameterNotFoundAction": "Deny"}}
    ),
    "params-missing-ignored": Case(
        {**check("false"), **PARAMS, "failurePolicy": "Ignore"},
        {"paramRef": {"name": "none", "parameterNotFoundAction": "Deny"}},
    ),
    "params-missing-allowed": Case(
        {**check("false"), **PARAMS}, {"paramRef": {"name": "none", "parameterNotFoundAction": "Allow"}}
    ),
    "params-selected": Case(
        {**check("params.data.k == 'x'"), **PARAMS},
        {"paramRef": {"selector": {"matchLabels": {"for": "policies"}}, "parameterNotFoundAction": "Deny"}},
    ),
    "params-of-none": Case({**check("params == null", message="params"), **PARAMS}),
    "params-unknown": Case(
        {**check("true"), "paramKind": {"apiVersion": "example.com/v1", "kind": "Nothing"}},
        {"paramRef": {"name": "x", "parameterNotFoundAction": "Deny"}},
    ),
    "params-of-cluster": Case(
        {**check("true"), "paramKind": {"apiVersion": "v1", "kind": "Namespace"}},
        {"paramRef": {"name": "default", "namespace": "default", "parameterNotFoundAction": "Deny"}},
    ),
    "params-namespace": Case(
        {
            **check(
                "params.metadata.name == 'other'", messageExpression="string(params.kind) + string(params.apiVersion)"
            ),
            "paramKind": {"apiVersion": "v1", "kind": "Namespace"},
        },
        {"paramRef": {"name": "default", "parameterNotFoundAction": "Deny"}},
    ),
    "of-a-name": Case(check("false"), match={"resourceNames": ["of-a-name"]}),
    "of-another-name": Case(check("false"), match={"resourceNames": ["x"]}),
    "of-another-scope": Case(check("false"), match={"scope": "Cluster"}),
    "of-another-operation": Case(check("false"), match={"operations": ["UPDATE"]}),
    "of-secrets": Case(check("false"), match={"resources": ["secrets"]}),
    "bound-elsewhere": Case(check("false"), {"matchResources": {"namespaceSelector": {"matchLabels": {"a": "b"}}}}),
    "bound-here": Case(
        check("false"),
        {"matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}},
    ),
    "annotates": Case({**check("true"), "auditAnnotations": [{"key": "k", "valueExpression": "'k ' + object.data.k"}]}),
    "annotates-null": Case({**check("true"), "auditAnnotations": [{"key": "k", "valueExpression": "null"}]}),
    "annotates-wrongly": Case(
        {**check("true"), "auditAnnotations": [{"key": "k", "valueExpression": "string(object.data.missing)"}]}
    ),
    "annotates-authorized": Case(
        {
            **check("true"),
            "auditAnnotations": [
                {"key": "k", "valueExpression": "string(authorizer.path('/x').check('get').allowed())"}
            ],
        }
    ),
    "replicas": Case(
        check("object.spec.replicas <= 3", messageExpression="'replicas ' + string(object.spec.replicas)"),
        deployment=True,
    ),
    "defaulted": Case(check("object.spec.strategy.type == 'Recreate'", message="strategy"), deployment=True),
}

ADD = "JSONPatch{op: 'add', path: '/data/added', value: 'yes'}"
MUTATING: dict[str, Case] = {
    "applies": Case(apply("Object{data: {'added': 'yes'}}")),
    "applies-labels": Case(apply("Object{metadata: Object.metadata{annotations: {'a': object.data.k}}}")),
    "applies-nothing": Case(apply("Object{}")),
    "patches": Case(patch(f"[{ADD}]")),
    "patches-twice": Case(patch(f"[{ADD}]", "[JSONPatch{op: 'copy', from: '/data/added', path: '/data/again'}]")),
    "patches-escaped": Case(
        patch("[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a.b/c'), value: 'x'}]")
    ),
    "patches-if": Case(patch("[JSONPatch{op: 'test', path: '/data/k', value: 'x'}, " + ADD + "]")),
    "patches-none": Case(patch("object.data.k == 'v' ? [] : [JSONPatch{op: 'remove', path: '/data'}]")),
    "patches-nowhere": Case(patch("[JSONPatch{op: 'add', path: '/nowhere/at/all', value: 'x'}]")),
    "patches-nowhere-ignored": Case(
        patch("[JSONPatch{op: 'add', path: '/nowhere/at/all', value: 'x'}]", failurePolicy="Ignore")
    ),
    "patches-half": Case(patch("[JSONPatch{op: 'remove', path: '/data/x'}]", f"[{ADD}]", failurePolicy="Ignore")),
    "patches-oddly": Case(patch("[JSONPatch{op: 'frob', path: '/data/k', value: 'x'}]")),
    "patches-array": Case(
        patch("[JSONPatch{op: 'add', path: '/spec/template/spec/containers/x', value: 'x'}]"), deployment=True
    ),
    "patches-past": Case(
        patch("[JSONPatch{op: 'add', path: '/spec/template/spec/containers/9', value: 'x'}]"), deployment=True
    ),
    "patches-gone": Case(patch("[JSONPatch{op: 'remove', path: '/data/gone'}]")),
    "patches-unknown": Case(patch("[JSONPatch{op: 'add', path: '/unknown', value: 'x'}]")),
    "patches-type": Case(patch("[JSONPatch{op: 'replace', path: '/data/k', value: 3}]")),
    "patches-misnamed": Case(
        patch("[JSONPatch{op: 'add', path: '/metadata/annotations', value: Object.a{b: Object.x{}}}]")
    ),
    "patches-structured": Case(
        patch("[JSONPatch{op: 'add', path: '/metadata/annotations', value: Object.metadata.annotations{a: 'b'}}]")
    ),
    "errs-mutating": Case(apply("Object{data: {'added': object.data.missing}}")),
    "errs-mutating-ignored": Case(apply("Object{data: {'added': object.data.missing}}", failurePolicy="Ignore")),
    "applies-unknown": Case(apply("Object{unknown: 'x'}")),
    "applies-type": Case(apply("Object{data: {'added': 3}}")),
    "applies-misnamed": Case(apply("Object{metadata: Object.spec{annotations: {'a': 'b'}}}")),
    "costs-mutating": Case(apply(f"Object{{data: {{'added': string({LOOP})}}}}")),
    "undecided-mutating": Case(apply("Object{}", **condition("object.data.missing == 'x'"))),
    "unconditional-mutating": Case(apply("Object{data: {'added': 'yes'}}", **condition("false"))),
    "names-mutating": Case(apply("Object{data: {'added': variables.v}}", **variables(v="object.data.k + '!'"))),
    "params-mutating": Case(
        apply("Object{data: {'added': params.data.k}}", **PARAMS),
        {"paramRef": {"name": "params", "parameterNotFoundAction": "Deny"}},
    ),
    "params-missing-mutating": Case(
        apply("Object{}", **PARAMS), {"paramRef": {"name": "none", "parameterNotFoundAction": "Deny"}}
    ),
    "params-unknown-mutating": Case(
        apply("Object{}", paramKind={"apiVersion": "example.com/v1", "kind": "Nothing"}),
        {"paramRef": {"name": "x", "parameterNotFoundAction": "Deny"}},
    ),
    "breaks": Case(apply("Object{metadata: Object.metadata{labels: {'bad': 'not a label!'}}}")),
    "again": Case(
        apply("Object{data: {'times': object.data.?times.orValue('') + 'i'}}", reinvocationPolicy="IfNeeded")
    ),
    "sidecar": Case(
        apply(container("name: 'side', image: 'side:1'")),
        deployment=True,
    ),
    "sidecar-wrong": Case(
        apply(container("image: 'side:1'")),
        deployment=True,
    ),
    "replicates": Case(apply("Object{spec: Object.spec{replicas: 3}}"), deployment=True),
    "replicates-oddly": Case(apply("Object{spec: Object.spec{replicas: 'three'}}"), deployment=True),
    "atomic": Case(
        apply(container("name: 'c', args: ['x']")),
        deployment=True,
    ),
    "atomic-selector": Case(
        apply("Object{spec: Object.spec{selector: Object.spec.selector{matchLabels: {'a': 'b'}}}}"), deployment=True
    ),
    "patches-deployment": Case(
        patch(
            "[JSONPatch{op: 'replace', path: '/spec/replicas', value: object.spec.replicas + 1},"
            " JSONPatch{op: 'add', path: '/spec/template/spec/initContainers',"
            " value: [{'name': 'init', 'image': 'init:1'}]}]"
        ),
        deployment=True,
    ),
    "patches-deployment-unknown": Case(patch("[JSONPatch{op: 'add', path: '/spec/frob', value: 1}]"), deployment=True),
}


def policy(name: str, case: Case, sort: str) -> tuple[Object, Object]:
    """The policy and its binding."""
    group, plural = ("apps", "deployments") if case.deployment else ("", "configmaps")
    rule = {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": [plural]}
    match = {"resourceRules": [rule | case.match], "objectSelector": {"matchLabels": {"case": name}}}
    bound: Object = {"policyName": name, **({"validationActions": ["Deny"]} if sort == "validating" else {})}
    return (
        {"metadata": {"name": name}, "spec": {"matchConstraints": match, **case.spec}},
        {"metadata": {"name": f"{name}-b"}, "spec": bound | case.binding},
    )


def register(cluster: Cluster, name: str, case: Case, sort: str) -> None:
    made, bound = policy(name, case, sort)
    cluster.post(f"{REGISTRATION}/{sort}admissionpolicies", made).ok()
    cluster.post(f"{REGISTRATION}/{sort}admissionpolicybindings", bound).ok()


def surroundings(cluster: Cluster) -> None:
    """What the cases refer to."""
    for namespace, value in (("default", "p"), ("kube-system", "q")):
        body = {"metadata": {"name": "params", "labels": {"for": "policies"}}, "data": {"k": value}}
        cluster.post(f"/api/v1/namespaces/{namespace}/configmaps", body).ok()


def write(cluster: Cluster, name: str, case: Case, **headers: str) -> Answer:
    metadata = {"name": name, "labels": {"case": name}}
    if not case.deployment:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": case.data}
        return cluster.post(CONFIG_MAPS, body, **headers)
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 5, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
    return cluster.post(DEPLOYMENTS, body, **headers)
