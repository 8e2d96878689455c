"""Policies and webhooks about the same write: mutating policies first, validating policies before validating webhooks,
and a second round for those who want to see what came after them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from shoal.apiserver.audit import AuditConfig, open_auditor
from shoal.clock import SystemClock
from tests.apiserver.policies.cases import Case, apply, check, condition, patch, register, write
from tests.apiserver.webhooks.receiver import CONFIG_MAPS, Hooks, Reply, allow
from tests.apiserver.webhooks.receiver import add as adding
from tests.apiserver.webhooks.receiver import patch as patching
from tests.serving import config_map

Object = dict[str, Any]
PLAIN = Case({})


def append(letter: str, once: bool = False) -> Reply:
    def reply(review: Object) -> Any:
        order = review["request"]["object"]["data"].get("order", "")
        if once and letter in order:
            return allow(review)
        return patching(adding("/data/order", order + letter))(review)

    return reply


def appending(letter: str, **more: object) -> Case:
    return Case(apply(f"Object{{data: {{'order': object.data.?order.orValue('') + '{letter}'}}}}", **more))


def test_policies_come_before_webhooks(hooks: Hooks) -> None:
    hooks.register("mutating", hooks.hook("change", append("w")))
    register(hooks.cluster, "one", appending("p"), "mutating")
    assert write(hooks.cluster, "one", PLAIN).ok()["data"] == {"k": "v", "order": "pw"}


def test_a_policy_sees_what_a_webhook_did_after_it(hooks: Hooks) -> None:
    hooks.register("mutating", hooks.hook("change", append("w", once=True)))
    register(hooks.cluster, "one", appending("p", reinvocationPolicy="IfNeeded"), "mutating")
    assert write(hooks.cluster, "one", PLAIN).ok()["data"]["order"] == "pwp"


def test_a_webhook_sees_what_a_policy_did_after_it(hooks: Hooks) -> None:
    hooks.register("mutating", hooks.hook("change", append("w"), reinvocationPolicy="IfNeeded"))
    register(hooks.cluster, "one", appending("p", reinvocationPolicy="IfNeeded"), "mutating")
    assert write(hooks.cluster, "one", PLAIN).ok()["data"]["order"] == "pwpw"


def test_policies_that_chase_each_other_end(hooks: Hooks) -> None:
    for name, here, there in (("a", "x", "y"), ("b", "y", "x")):
        both = condition(f"object.data.?turn.orValue('x') == '{here}'")
        text = f"Object{{data: {{'turn': '{there}', 'times': object.data.?times.orValue('') + 'i'}}}}"
        register(hooks.cluster, name, Case(apply(text, reinvocationPolicy="IfNeeded", **both), match={}), "mutating")
        hooks.cluster.patch(
            f"/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies/{name}",
            {"spec": {"matchConstraints": {"objectSelector": {"matchLabels": {"case": "chase"}}}}},
        ).ok()
    assert write(hooks.cluster, "chase", PLAIN).ok()["data"] == {"k": "v", "turn": "x", "times": "iiii"}


def test_who_is_refused_by_a_policy_is_not_asked_about(hooks: Hooks) -> None:
    hooks.register("validating", hooks.hook("look", allow))
    register(hooks.cluster, "no", Case(check("'added' in object.data", message="not added")), "validating")
    register(hooks.cluster, "adds", Case(patch("[JSONPatch{op: 'add', path: '/data/added', value: 'y'}]")), "mutating")
    assert write(hooks.cluster, "no", PLAIN).status == 422
    assert hooks.order() == []
    labels = {"case": "adds"}
    hooks.cluster.post(CONFIG_MAPS, config_map("adds", {"k": "v"}, labels=labels)).ok()
    assert [each["object"]["data"] for each in hooks.asked("look")] == [{"k": "v", "added": "y"}]


def test_conditions_of_webhooks_ask_the_authorizer(hooks: Hooks) -> None:
    mine = [{"name": "c", "expression": "authorizer.requestResource.check('frob').allowed()"}]
    hooks.register("validating", hooks.hook("look", allow, matchConditions=mine))
    hooks.cluster.post(CONFIG_MAPS, config_map("a")).ok()
    rights = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}
    roles = "/apis/rbac.authorization.k8s.io/v1"
    hooks.cluster.post(f"{roles}/clusterroles", {"metadata": {"name": "w"}, "rules": [rights]}).ok()
    bound = {
        "metadata": {"name": "w"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "w"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
    }
    hooks.cluster.post(f"{roles}/clusterrolebindings", bound).ok()
    hooks.cluster.post(CONFIG_MAPS, config_map("b"), Impersonate_User="alice").ok()
    assert [each["name"] for each in hooks.asked("look")] == ["a"]


def test_what_policies_leave_in_the_audit_log(hooks: Hooks, tmp_path: Path) -> None:
    annotations = [{"key": "seen", "valueExpression": "'k is ' + object.data.k"}]
    case = Case({**check("false", message="a < b"), "auditAnnotations": annotations}, {"validationActions": ["Audit"]})
    register(hooks.cluster, "notes", case, "validating")
    app = hooks.cluster.server.shoal.server.app
    audit = open_auditor(AuditConfig(str(tmp_path / "audit.log")), SystemClock())
    assert audit is not None
    plain = app._server
    app._server = replace(plain, auditor=audit)
    try:
        write(hooks.cluster, "notes", PLAIN).ok()
    finally:
        app._server = plain
        audit.close()
    events = [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]
    (found,) = (each["annotations"] for each in events if each["objectRef"]["resource"] == "configmaps")
    assert found["notes/seen"] == "k is v"
    failure = found["validation.policy.admission.k8s.io/validation_failure"]
    assert "a \\u003c b" in failure
    assert json.loads(failure) == [
        {
            "message": "a < b",
            "policy": "notes",
            "binding": "notes-b",
            "expressionIndex": 0,
            "validationActions": ["Audit"],
        }
    ]
