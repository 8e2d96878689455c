"""When a policy is in force, for which requests, and which are exempt."""

from __future__ import annotations

from tests.apiserver.policies.cases import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    PARAMS,
    REGISTRATION,
    Case,
    Object,
    apply,
    check,
    condition,
    register,
    write,
)
from tests.serving import Cluster, Server, config_map, fresh_cluster

POLICIES, BINDINGS = f"{REGISTRATION}/validatingadmissionpolicies", f"{REGISTRATION}/validatingadmissionpolicybindings"
EVERYTHING: Object = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}


def for_all(cluster: Cluster, name: str, spec: Object, rule: Object, **binding: object) -> None:
    made = {"metadata": {"name": name}, "spec": {"matchConstraints": {"resourceRules": [rule]}, **spec}}
    cluster.post(POLICIES, made).ok()
    bound = {"policyName": name, "validationActions": ["Deny"], **binding}
    cluster.post(BINDINGS, {"metadata": {"name": name}, "spec": bound}).ok()


def rule(*resources: str, group: str = "", operations: tuple[str, ...] = ("*",)) -> Object:
    return {"apiGroups": [group], "apiVersions": ["v1"], "operations": [*operations], "resources": [*resources]}


def test_a_policy_is_in_force_from_its_binding_on_to_its_end(whole: Cluster) -> None:
    case = Case(check("false"))
    body = {"spec": {"matchConstraints": {"resourceRules": [rule("configmaps")]}, **check("object.data.k == 'v'")}}
    whole.post(BINDINGS, {"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}}).ok()
    assert write(whole, "a", case).status == 201
    whole.post(POLICIES, {"metadata": {"name": "p"}, **body}).ok()
    assert whole.post(CONFIG_MAPS, config_map("b", {"k": "w"})).status == 422
    whole.patch(f"{POLICIES}/p", {"spec": check("object.data.k == 'w'")}).ok()
    assert whole.post(CONFIG_MAPS, config_map("b", {"k": "w"})).status == 201
    assert whole.post(CONFIG_MAPS, config_map("c", {"k": "v"})).status == 422
    whole.patch(f"{BINDINGS}/b", {"spec": {"validationActions": ["Warn"]}}).ok()
    answer = whole.post(CONFIG_MAPS, config_map("c", {"k": "v"}))
    assert (answer.status, "Validation failed" in answer.headers["warning"]) == (201, True)
    whole.delete(f"{BINDINGS}/b").ok()
    answer = whole.post(CONFIG_MAPS, config_map("d", {"k": "v"}))
    assert (answer.status, "warning" in answer.headers) == (201, False)


def test_policies_belong_to_their_cluster(server: Server, whole: Cluster) -> None:
    for_all(whole, "no", check("false"), rule("configmaps"))
    assert whole.post(CONFIG_MAPS, config_map("a")).status == 422
    other = fresh_cluster(server, "cluster")
    assert other.post(CONFIG_MAPS, config_map("a")).status == 201
    other.close()


def test_one_that_refuses_everything_can_be_taken_back(whole: Cluster) -> None:
    for_all(whole, "no", check("false"), EVERYTHING)
    assert whole.post(CONFIG_MAPS, config_map("a")).status == 422
    hook = f"{REGISTRATION}/validatingwebhookconfigurations"
    assert whole.post(hook, {"metadata": {"name": "x"}, "webhooks": []}).status == 422
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    assert whole.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review).status == 201
    whole.patch(f"{POLICIES}/no", {"metadata": {"labels": {"a": "b"}}}).ok()
    whole.delete(f"{POLICIES}/no").ok()
    assert whole.post(CONFIG_MAPS, config_map("a")).status == 201


def test_every_way_to_change_an_object(whole: Cluster) -> None:
    whole.post(CONFIG_MAPS, config_map("a", {"k": "1"})).ok()
    told = "request.operation + ' ' + string(oldObject.data.k) + ' ' + (object == null ? '-' : string(object.data.k))"
    expression = "has(oldObject.data) && oldObject.data.k == '0'"
    for_all(whole, "no", check(expression, messageExpression=told), rule("configmaps", operations=("UPDATE", "DELETE")))
    said = "ValidatingAdmissionPolicy 'no' with binding 'no' denied request"
    path = f"{CONFIG_MAPS}/a"
    for answer, shown in (
        (whole.put(path, config_map("a", {"k": "2"})), "UPDATE 1 2"),
        (whole.patch(path, {"data": {"k": "3"}}), "UPDATE 1 3"),
        (whole.patch(path, [{"op": "replace", "path": "/data/k", "value": "4"}], "json"), "UPDATE 1 4"),
        (whole.patch(f"{path}?fieldManager=m&force=true", config_map("a", {"k": "5"}), "apply"), "UPDATE 1 5"),
        (whole.patch(f"{path}?dryRun=All", {"data": {"k": "6"}}), "UPDATE 1 6"),
        (whole.delete(path), "DELETE 1 -"),
    ):
        assert (answer.status, answer["message"]) == (422, f'configmaps "a" is forbidden: {said}: {shown}')
    assert whole.get(path).ok()["data"] == {"k": "1"}


def test_subresources(whole: Cluster) -> None:
    told = "request.kind.kind + ' ' + request.?subResource.orValue('') + ' ' + string(object.spec.replicas)"
    for_all(whole, "no", check("false", messageExpression=told), rule("deployments/scale", group="apps"))
    for_all(whole, "status", check("false", message="status"), rule("deployments/status", group="apps"))
    assert write(whole, "d", Case({}, deployment=True)).status == 201
    answer = whole.patch(f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 7}})
    assert (answer.status, answer["message"].endswith("denied request: Scale scale 7")) == (422, True)
    answer = whole.patch(f"{DEPLOYMENTS}/d/status", {"status": {"replicas": 7}})
    assert (answer.status, answer["message"].endswith("denied request: status")) == (422, True)
    whole.patch(f"{DEPLOYMENTS}/d", {"spec": {"replicas": 7}}).ok()


def test_names_that_are_made_up(whole: Cluster) -> None:
    for_all(whole, "no", check("false", messageExpression="string(request.?name.hasValue())"), rule("configmaps"))
    body = {"metadata": {"generateName": "g-"}}
    answer = whole.post(CONFIG_MAPS, body)
    assert answer["message"].startswith('configmaps "g-')
    assert answer["message"].endswith("denied request: true")
    assert answer["details"]["name"].startswith("g-")


def test_parameters_are_those_of_now(whole: Cluster) -> None:
    spec = {**check("int(object.data.k) <= int(params.data.max)"), **PARAMS, **condition("object.metadata.name != 'p'")}
    reference = {"selector": {"matchLabels": {"max": "yes"}}, "parameterNotFoundAction": "Allow"}
    for_all(whole, "max", spec, rule("configmaps"), paramRef=reference)
    whole.post(CONFIG_MAPS, config_map("a", {"k": "5"})).ok()
    whole.post(CONFIG_MAPS, config_map("p", {"max": "3"}, labels={"max": "yes"})).ok()
    assert whole.post(CONFIG_MAPS, config_map("b", {"k": "5"})).status == 422
    whole.patch(f"{CONFIG_MAPS}/p", {"data": {"max": "6"}}).ok()
    whole.post(CONFIG_MAPS, config_map("b", {"k": "5"})).ok()


def test_parameters_of_a_namespace_for_what_has_none(whole: Cluster) -> None:
    reference = {"name": "p", "parameterNotFoundAction": "Deny"}
    for_all(whole, "no", {**check("true"), **PARAMS}, rule("nodes"), paramRef=reference)
    answer = whole.post("/api/v1/nodes", {"metadata": {"name": "n"}})
    said = "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
    assert answer["message"].endswith(f"denied request: failed to configure binding: {said}")
    answer = whole.post("/api/v1/namespaces", {"metadata": {"name": "n"}})
    assert answer.status == 201


def test_who_writes_a_policy_may_read_its_parameters(whole: Cluster) -> None:
    rules = [{"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["*"]}]
    roles = "/apis/rbac.authorization.k8s.io/v1"
    whole.post(f"{roles}/clusterroles", {"metadata": {"name": "writer"}, "rules": rules}).ok()
    bound = {
        "metadata": {"name": "writer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "writer"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
    }
    whole.post(f"{roles}/clusterrolebindings", bound).ok()
    spec = {"matchConstraints": {"resourceRules": [rule("configmaps")]}, **check("true")}
    alice = {"Impersonate_User": "alice"}
    whole.post(POLICIES, {"metadata": {"name": "plain"}, "spec": spec}, **alice).ok()
    answer = whole.post(POLICIES, {"metadata": {"name": "p"}, "spec": {**spec, **PARAMS}}, **alice)
    who = "user &{alice  [system:authenticated] map[]}"
    what = "objects of the referenced paramKind (kind=ConfigMap, apiVersion=v1)"
    said = f'spec.paramKind: Forbidden: {who} must have "get" permission on all {what}'
    named = 'ValidatingAdmissionPolicy.admissionregistration.k8s.io "p" is invalid'
    assert (answer.status, answer["message"]) == (422, f"{named}: {said}")
    whole.post(POLICIES, {"metadata": {"name": "p"}, "spec": {**spec, **PARAMS}}).ok()
    reference = {"name": "x", "parameterNotFoundAction": "Deny"}
    binding = {"policyName": "p", "validationActions": ["Deny"], "paramRef": reference}
    answer = whole.post(BINDINGS, {"metadata": {"name": "b"}, "spec": binding}, **alice)
    assert answer["message"].endswith(f'{who} does not have "get" permission on the object referenced by paramRef')
    whole.patch(f"{roles}/clusterroles/writer", {"rules": [*rules, {**rule("configmaps"), "verbs": ["get"]}]}).ok()
    whole.post(BINDINGS, {"metadata": {"name": "b"}, "spec": binding}, **alice).ok()


def test_what_a_policy_sets_nobody_owns(whole: Cluster) -> None:
    register(whole, "sets", Case(apply("Object{data: {'added': 'yes'}}")), "mutating")
    made = write(whole, "sets", Case({})).ok()
    assert made["data"] == {"k": "v", "added": "yes"}
    (entry,) = made["metadata"]["managedFields"]
    assert entry["fieldsV1"]["f:data"] == {".": {}, "f:k": {}}


def test_a_dry_run_is_changed_and_refused_too(whole: Cluster) -> None:
    register(whole, "sets", Case(apply("Object{data: {'added': string(request.dryRun)}}")), "mutating")
    body = config_map("x", {"k": "v"}, labels={"case": "sets"})
    assert whole.post(f"{CONFIG_MAPS}?dryRun=All", body).ok()["data"]["added"] == "true"
    assert whole.get(f"{CONFIG_MAPS}/x").status == 404


def test_expressions_that_do_not_fit_their_kinds_are_told_in_the_status(whole: Cluster) -> None:
    checks = [
        {"expression": "object.spec.replicas > 'x'", "messageExpression": "string(object.spec.nobody)"},
        {"expression": "object.metadata.name == 'x' && object.spec.template.spec.containers.all(c, c.image != '')"},
        {"expression": "variables.n == 'x' || object.spec.strategy.rollingUpdate.maxSurge == 1"},
    ]
    spec = {
        "matchConstraints": {"resourceRules": [rule("deployments", "replicasets", group="apps")]},
        "variables": [{"name": "n", "expression": "object.spec.replicas"}],
        "validations": checks,
    }
    status = whole.post(POLICIES, {"metadata": {"name": "p"}, "spec": spec}).ok()["status"]
    assert status["observedGeneration"] == 1
    found = {each["fieldRef"]: each["warning"] for each in status["typeChecking"]["expressionWarnings"]}
    told = "ERROR: <input>:1:22: found no matching overload for '_>_' applied to '(int, string)'"
    told += "\n | object.spec.replicas > 'x'\n | .....................^\n"
    assert found["spec.validations[0].expression"] == "\n".join(
        f"apps/v1, Kind={kind}: {told}" for kind in ("Deployment", "ReplicaSet")
    )
    assert "undefined field 'nobody'" in found["spec.validations[0].messageExpression"]
    assert "applied to '(int, string)'" in found["spec.validations[2].expression"]
    assert "undefined field 'strategy'" in found["spec.validations[2].expression"]
    assert len(found) == 3
    status = whole.patch(f"{POLICIES}/p", {"metadata": {"labels": {"a": "b"}}}).ok()["status"]
    assert len(status["typeChecking"]["expressionWarnings"]) == 3
    status = whole.patch(f"{POLICIES}/p", {"spec": {"validations": [checks[1]]}}).ok()["status"]
    assert status == {"observedGeneration": 2, "typeChecking": {}}
