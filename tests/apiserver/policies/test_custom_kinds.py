"""Policies on custom resources: objects are shown in the version the rule names, and mutations are pruned."""

from __future__ import annotations

from tests.apiserver.policies.cases import REGISTRATION, Object, apply, check
from tests.serving import Cluster

GROUP = "stable.example.com"
TABS = f"/apis/{GROUP}/{{}}/namespaces/default/crontabs"


def define(cluster: Cluster) -> None:
    fields: Object = {"cron": {"type": "string"}, "replicas": {"type": "integer"}}
    fields |= {"args": {"type": "array", "items": {"type": "string"}}}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    versions = [
        {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}}
        for name in ("v1", "v2")
    ]
    names = {"plural": "crontabs", "singular": "crontab", "kind": "CronTab"}
    spec = {"group": GROUP, "scope": "Namespaced", "names": names, "versions": versions}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"crontabs.{GROUP}"},
        "spec": spec,
    }
    cluster.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body).ok()
    cluster.eventually(lambda: cluster.get(TABS.format("v2")).status == 200)


def tab(version: str, name: str, **spec: object) -> Object:
    return {"apiVersion": f"{GROUP}/{version}", "kind": "CronTab", "metadata": {"name": name}, "spec": spec}


def bind(cluster: Cluster, sort: str, spec: Object, version: str, **match: object) -> None:
    rule = {"apiGroups": [GROUP], "apiVersions": [version], "operations": ["*"], "resources": ["crontabs"]}
    if sort == "mutating":
        rule["operations"] = ["CREATE", "UPDATE"]
    constraints = {"resourceRules": [rule], **match}
    body = {"metadata": {"name": "p"}, "spec": {"matchConstraints": constraints, **spec}}
    cluster.post(f"{REGISTRATION}/{sort}admissionpolicies", body).ok()
    bound: Object = {"policyName": "p"} | ({"validationActions": ["Deny"]} if sort == "validating" else {})
    cluster.post(f"{REGISTRATION}/{sort}admissionpolicybindings", {"metadata": {"name": "b"}, "spec": bound}).ok()


def test_any_version_is_shown_as_the_rule_names_it(whole: Cluster) -> None:
    define(whole)
    told = "object.apiVersion + ' ' + request.resource.version + ' ' + request.requestResource.version"
    bind(whole, "validating", check("false", messageExpression=f"string({told})"), "v1")
    answer = whole.post(TABS.format("v2"), tab("v2", "a"))
    assert answer["message"].endswith(f"denied request: {GROUP}/v1 v1 v2")


def test_exact_is_exact(whole: Cluster) -> None:
    define(whole)
    bind(whole, "validating", check("false"), "v1", matchPolicy="Exact")
    assert whole.post(TABS.format("v2"), tab("v2", "a")).status == 201
    assert whole.post(TABS.format("v1"), tab("v1", "b")).status == 422


def test_what_is_written_in_one_version_is_changed_in_another(whole: Cluster) -> None:
    define(whole)
    bind(whole, "mutating", apply("Object{spec: Object.spec{replicas: 3}}"), "v1")
    made = whole.post(TABS.format("v2"), tab("v2", "a", cron="x")).ok()
    assert (made["apiVersion"], made["spec"]) == (f"{GROUP}/v2", {"cron": "x", "replicas": 3})


def test_a_configuration_is_checked_by_the_schema(whole: Cluster) -> None:
    define(whole)
    bind(whole, "mutating", apply("Object{spec: Object.spec{args: ['x']}}"), "v1")
    answer = whole.post(TABS.format("v1"), tab("v1", "a"))
    said = "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: .spec.args"
    assert (answer.status, answer["reason"]) == (403, "Invalid")
    assert answer["message"] == f"policy 'p' with binding 'b' denied request: {said}"
    whole.patch(
        f"{REGISTRATION}/mutatingadmissionpolicies/p", {"spec": apply("Object{spec: Object.spec{unknown: 1}}")}
    ).ok()
    answer = whole.post(TABS.format("v1"), tab("v1", "a"))
    assert answer["message"].endswith(".spec.unknown: field not declared in schema")


def test_parameters_of_a_custom_kind(whole: Cluster) -> None:
    define(whole)
    whole.post(TABS.format("v1"), tab("v1", "p", replicas=3)).ok()
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    kind = {"apiVersion": f"{GROUP}/v2", "kind": "CronTab"}
    told = check("false", messageExpression="string(params.apiVersion) + ' ' + string(params.spec.replicas)")
    spec = {"matchConstraints": {"resourceRules": [rule]}, "paramKind": kind, **told}
    whole.post(f"{REGISTRATION}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": spec}).ok()
    reference = {"name": "p", "parameterNotFoundAction": "Deny"}
    bound = {"policyName": "p", "validationActions": ["Deny"], "paramRef": reference}
    whole.post(f"{REGISTRATION}/validatingadmissionpolicybindings", {"metadata": {"name": "b"}, "spec": bound}).ok()
    answer = whole.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "x"}})
    assert answer["message"].endswith(f"denied request: {GROUP}/v2 3")


def test_expressions_are_checked_by_the_schema(whole: Cluster) -> None:
    define(whole)
    checks = [{"expression": "object.spec.replicas > '1'"}, {"expression": "object.spec.retries < 1"}]
    checks.append({"expression": "'a' in object.metadata.labels && object.kind == 'CronTab'"})
    bind(whole, "validating", {"validations": checks}, "v1")
    found = whole.get(f"{REGISTRATION}/validatingadmissionpolicies/p").ok()["status"]["typeChecking"]
    first, second = (each["warning"] for each in found["expressionWarnings"])
    assert f"{GROUP}/v1, Kind=CronTab: ERROR: <input>:1:22: found no matching overload for '_>_'" in first
    assert "undefined field 'retries'" in second
