"""Webhook matching: rules, equivalent versions, selectors, subresources."""

from __future__ import annotations

from typing import Any

import pytest

from tests.apiserver.webhooks.receiver import CONFIG_MAPS, REGISTRATION, Hooks, add, allow, patch, rule
from tests.serving import DEFINITIONS, config_map, widget_definition

Object = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"


def pod(name: str) -> Object:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        (rule("configmaps"), True),
        (rule("*"), True),
        (rule("*/*"), True),
        (rule("secrets"), False),
        (rule("configmaps/status"), False),
        (rule("configmaps", operations=("UPDATE", "DELETE")), False),
        (rule("configmaps", apiGroups=["apps"]), False),
        (rule("configmaps", apiGroups=[""]), True),
        (rule("configmaps", apiVersions=["v2"]), False),
        (rule("configmaps", scope="Cluster"), False),
        (rule("configmaps", scope="Namespaced"), True),
    ],
)
def test_rules(hooks: Hooks, given: Object, asked: bool) -> None:
    hooks.register("validating", hooks.hook("look", allow, rules=[given]))
    hooks.cluster.post(CONFIG_MAPS, config_map("a")).ok()
    assert len(hooks.asked("look")) == asked


def test_namespaces_are_of_the_whole_cluster_and_selected_by_their_own_labels(hooks: Hooks) -> None:
    wanted = {"matchLabels": {"team": "a"}}
    here = hooks.hook("here", allow, rules=[rule("*", scope="Cluster")], namespaceSelector=wanted)
    hooks.register("validating", here, hooks.hook("within", allow, rules=[rule("namespaces", scope="Namespaced")]))
    for name, labels in (("x", {"team": "a"}), ("y", {"team": "b"})):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        hooks.cluster.post("/api/v1/namespaces", body).ok()
    assert [(one["name"], one["namespace"]) for one in hooks.asked("here")] == [("x", "x")]
    assert hooks.asked("within") == []


def test_objects_of_a_namespace_are_selected_by_its_labels(hooks: Hooks) -> None:
    for name, labels in (("x", {"team": "a"}), ("y", {"team": "b"})):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        hooks.cluster.post("/api/v1/namespaces", body).ok()
    hooks.register("validating", hooks.hook("look", allow, namespaceSelector={"matchLabels": {"team": "a"}}))
    for name in ("x", "y"):
        hooks.cluster.post(f"/api/v1/namespaces/{name}/configmaps", config_map("a")).ok()
    assert [one["namespace"] for one in hooks.asked("look")] == ["x"]


def test_objects_are_selected_by_labels_they_have_or_had(hooks: Hooks) -> None:
    hooks.register("validating", hooks.hook("look", allow, objectSelector={"matchLabels": {"watched": "yes"}}))
    hooks.cluster.post(CONFIG_MAPS, config_map("a")).ok()
    assert hooks.asked("look") == []
    hooks.cluster.patch(f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"watched": "yes"}}}).ok()
    hooks.cluster.patch(f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"watched": None}}}).ok()
    hooks.cluster.patch(f"{CONFIG_MAPS}/a", {"data": {"k": "v"}}).ok()
    assert [one["operation"] for one in hooks.asked("look")] == ["UPDATE", "UPDATE"]


def two_versions() -> Object:
    crd = widget_definition()
    first = crd["spec"]["versions"][0]
    crd["spec"]["versions"] = [first, {**first, "name": "v2", "storage": False}]
    return crd


@pytest.mark.parametrize(("policy", "seen"), [("Equivalent", ["v1"]), ("Exact", [])])
def test_another_version_is_shown_as_the_one_asked_for(hooks: Hooks, policy: str, seen: list[str]) -> None:
    hooks.cluster.post(DEFINITIONS, two_versions()).ok()
    only = rule("widgets", apiVersions=["v1"])
    hooks.register("mutating", hooks.hook("look", patch(add("/spec/size", 9)), rules=[only], matchPolicy=policy))
    body = {"apiVersion": "example.com/v2", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1}}
    made = hooks.cluster.post("/apis/example.com/v2/namespaces/default/widgets", body).ok()
    assert made["apiVersion"] == "example.com/v2"
    assert made["spec"]["size"] == (9 if seen else 1)
    asked = hooks.asked("look")
    assert [one["kind"]["version"] for one in asked] == seen
    for one in asked:
        assert one["object"]["apiVersion"] == "example.com/v1"
        assert (one["resource"]["version"], one["requestResource"]["version"]) == ("v1", "v2")
        assert one["requestKind"] == {"group": "example.com", "version": "v2", "kind": "Widget"}


def test_events_of_one_group_are_shown_as_those_of_the_other(hooks: Hooks) -> None:
    only = rule("events", apiGroups=["events.k8s.io"])
    hooks.register("validating", hooks.hook("look", allow, rules=[only]))
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "message": "said",
        "type": "Normal",
        "reason": "Because",
    }
    hooks.cluster.post("/api/v1/namespaces/default/events", event).ok()
    (one,) = hooks.asked("look")
    assert (one["object"]["apiVersion"], one["object"]["note"]) == ("events.k8s.io/v1", "said")


def test_a_changed_configuration_counts_from_the_next_write_on(hooks: Hooks) -> None:
    hooks.register("validating", hooks.hook("look", allow))
    path = f"{REGISTRATION}/validatingwebhookconfigurations/hooks"
    hooks.cluster.post(CONFIG_MAPS, config_map("a")).ok()
    hooks.cluster.patch(
        path, [{"op": "replace", "path": "/webhooks/0/rules/0/resources", "value": ["pods"]}], "json"
    ).ok()
    hooks.cluster.post(CONFIG_MAPS, config_map("b")).ok()
    hooks.cluster.delete(path).ok()
    hooks.cluster.post(CONFIG_MAPS, config_map("c")).ok()
    assert [one["name"] for one in hooks.asked("look")] == ["a"]


def test_scale_is_shown_as_a_scale(hooks: Hooks) -> None:
    hooks.register("mutating", hooks.hook("more", patch(add("/spec/replicas", 5)), "deployments/scale"))
    hooks.register("validating", hooks.hook("look", allow, "deployments/scale"))
    labels = {"app": "x"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }
    path = "/apis/apps/v1/namespaces/default/deployments"
    hooks.cluster.post(path, body).ok()
    assert hooks.asked("look") == []
    assert hooks.cluster.patch(f"{path}/d/scale", {"spec": {"replicas": 3}}).ok()["spec"]["replicas"] == 5
    assert hooks.cluster.get(f"{path}/d").ok()["spec"]["replicas"] == 5
    (one,) = hooks.asked("look")
    assert one["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert (one["subResource"], one["operation"]) == ("scale", "UPDATE")
    assert (one["oldObject"]["spec"], one["object"]["spec"]) == ({"replicas": 1}, {"replicas": 5})
    assert one["object"]["kind"] == "Scale"


def test_status_is_a_subresource_of_its_own(hooks: Hooks) -> None:
    hooks.register("validating", hooks.hook("whole", allow, "pods"), hooks.hook("status", allow, "pods/status"))
    hooks.cluster.post(PODS, pod("p")).ok()
    hooks.cluster.patch(f"{PODS}/p/status", {"status": {"phase": "Running"}}).ok()
    assert [(one["operation"], one.get("subResource")) for one in hooks.asked("whole")] == [("CREATE", None)]
    assert [(one["operation"], one["subResource"]) for one in hooks.asked("status")] == [("UPDATE", "status")]


def test_bindings_evictions_and_tokens_are_shown_as_what_they_are(hooks: Hooks) -> None:
    which = ("pods/binding", "pods/eviction", "serviceaccounts/token")
    hooks.register("validating", hooks.hook("look", allow, *which), hooks.hook("pods", allow, "pods"))
    hooks.cluster.post(PODS, pod("p")).ok()
    target = {"apiVersion": "v1", "kind": "Node", "name": "n"}
    hooks.cluster.post(f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": target}).ok()
    hooks.cluster.post(f"{PODS}/p/eviction", {"metadata": {"name": "p"}}).ok()
    hooks.cluster.post("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "me"}}).ok()
    hooks.cluster.post("/api/v1/namespaces/default/serviceaccounts/me/token", {"spec": {}}).ok()
    assert [(one["operation"], one["subResource"], one["kind"]["kind"]) for one in hooks.asked("look")] == [
        ("CREATE", "binding", "Binding"),
        ("CREATE", "eviction", "Eviction"),
        ("CREATE", "token", "TokenRequest"),
    ]
    assert hooks.asked("look")[0]["object"]["target"] == target
    assert [one["operation"] for one in hooks.asked("pods")] == ["CREATE"]


def conditions(*expressions: str) -> list[Object]:
    return [{"name": f"c{i}", "expression": expression} for i, expression in enumerate(expressions)]


def test_conditions_choose_the_requests(hooks: Hooks) -> None:
    mine = conditions("request.operation == 'UPDATE'", "object.data.k != oldObject.data.k", "!('x' in object.data)")
    hooks.register("validating", hooks.hook("look", allow, matchConditions=mine))
    hooks.cluster.post(CONFIG_MAPS, config_map("a", {"k": "1"})).ok()
    hooks.cluster.patch(f"{CONFIG_MAPS}/a", {"data": {"other": "1"}}).ok()
    hooks.cluster.patch(f"{CONFIG_MAPS}/a", {"data": {"k": "2"}}).ok()
    hooks.cluster.patch(f"{CONFIG_MAPS}/a", {"data": {"k": "3", "x": "y"}}).ok()
    assert [one["object"]["data"] for one in hooks.asked("look")] == [{"k": "2", "other": "1"}]


def test_conditions_that_cannot_be_decided(hooks: Hooks) -> None:
    unknown = conditions("object.data.missing == 'x'")
    hooks.register("validating", hooks.hook("open", allow, matchConditions=unknown, failurePolicy="Ignore"))
    hooks.cluster.post(CONFIG_MAPS, config_map("a", {"k": "1"})).ok()
    hooks.register("validating", hooks.hook("closed", allow, matchConditions=unknown), name="z")
    refused = hooks.cluster.post(CONFIG_MAPS, config_map("b", {"k": "1"}))
    assert (refused.status, refused["reason"]) == (403, "Forbidden")
    why = "expression 'object.data.missing == 'x'' resulted in error: no such key: missing"
    assert refused["message"] == f'configmaps "b" is forbidden: {why}'
    settled = conditions("object.data.missing == 'x'", "false")
    hooks.cluster.delete(f"{REGISTRATION}/validatingwebhookconfigurations/z").ok()
    hooks.register("validating", hooks.hook("no", allow, matchConditions=settled), name="z")
    hooks.cluster.post(CONFIG_MAPS, config_map("b", {"k": "1"})).ok()
    assert hooks.order() == []


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("object.(", "compilation failed: ERROR: <input>:1:8: Syntax error"),
        ("nobody.knows == 1", "compilation failed: ERROR: <input>:1:1: undeclared reference to 'nobody'"),
        ("1 + 1", "must evaluate to bool"),
        ("request.object.data.x == 'y'", "undefined field 'object'"),
    ],
)
def test_conditions_that_do_not_compile_are_refused(hooks: Hooks, expression: str, said: str) -> None:
    hook = hooks.hook("look", allow, matchConditions=conditions(expression))
    body = {"metadata": {"name": "x"}, "webhooks": [hook]}
    answer = hooks.cluster.post(f"{REGISTRATION}/mutatingwebhookconfigurations", body)
    assert answer.status == 422
    assert "webhooks[0].matchConditions[0].expression: Invalid value: " in answer["message"]
    assert said in answer["message"]


def test_conditions_that_cost_too_much_end(hooks: Hooks) -> None:
    bomb = "[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, " + "object.data.k.matches('(x+)+y') || true))"
    deep = "object.data.k.split('').all(a, object.data.k.split('').all(b, object.data.k.split('').all(c, a != b + c)))"
    hooks.register("validating", hooks.hook("bomb", allow, matchConditions=conditions(bomb, deep)))
    answer = hooks.cluster.post(CONFIG_MAPS, config_map("a", {"k": "x" * 2000}))
    assert answer.status == 403
    assert "cost" in answer["message"]
