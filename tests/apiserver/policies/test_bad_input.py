"""Huge, deep, endless or absurd policies get a clear error, and the server keeps running."""

from __future__ import annotations

import threading

import pytest

from tests.apiserver.policies.cases import CONFIG_MAPS, HEAVY, LOOP, REGISTRATION, Case, Object, check, patch, register
from tests.apiserver.policies.invalid_specs import MATCH
from tests.serving import Cluster, Server, config_map, fresh_cluster

VALIDATING, MUTATING = f"{REGISTRATION}/validatingadmissionpolicies", f"{REGISTRATION}/mutatingadmissionpolicies"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("(" * 500 + "true" + ")" * 500, "expression recursion limit exceeded"),
        ("!" * 2000 + "true", ""),
        (" || ".join(["object.a == 1"] * 2000), ""),
        ("[" * 300 + "]" * 300, "expression recursion limit exceeded"),
        ("Object{a: " * 100 + "1" + "}" * 100, "expression recursion limit exceeded"),
        ("object" + ".a" * 1000, "expression recursion limit exceeded"),
        ("\x00", "Syntax error"),
        ("'" + "x" * 90_000 + "' == ''", ""),
        ("'" + "x" * 500_000 + "' == ''", "size exceeds limit"),
    ],
)
def test_expressions(whole: Cluster, text: str, said: str) -> None:
    answer = whole.post(VALIDATING, {"metadata": {"name": "p"}, "spec": {**MATCH, **check(text)}})
    assert answer.status == (422 if said else 201)
    assert said in answer.json.get("message", "")


def test_many_of_everything(whole: Cluster) -> None:
    spec: Object = {**MATCH, "validations": [{"expression": f"object.data.k != '{i}'"} for i in range(500)]}
    spec["variables"] = [{"name": f"v{i}", "expression": f"variables.v{i - 1} + 1" if i else "1"} for i in range(60)]
    spec["validations"].append({"expression": "variables.v59 == 60"})
    whole.post(VALIDATING, {"metadata": {"name": "p"}, "spec": spec}).ok()
    bound = {"policyName": "p", "validationActions": ["Deny"]}
    whole.post(f"{REGISTRATION}/validatingadmissionpolicybindings", {"metadata": {"name": "b"}, "spec": bound}).ok()
    assert whole.post(CONFIG_MAPS, config_map("a", {"k": "v"})).status == 201
    assert whole.post(CONFIG_MAPS, config_map("b", {"k": "7"})).status == 422


def test_a_patch_that_grows(whole: Cluster) -> None:
    """Each copy doubles the object."""
    copies = ", ".join(f"JSONPatch{{op: 'copy', from: '/data', path: '/data/{'x' * (i + 1)}'}}" for i in range(40))
    register(whole, "grows", Case(patch(f"[{copies}]")), "mutating")
    answer = whole.post(CONFIG_MAPS, config_map("a", {"k": "v" * 1000}, labels={"case": "grows"}))
    assert (answer.status, answer["reason"]) == (403, "Invalid")
    assert "the accumulated size increase of copy is" in answer["message"]


def test_a_value_that_grows(whole: Cluster) -> None:
    doubled = "object.data.k" + ".replace('v', 'vvvvvvvvvv')" * 12
    register(whole, "grows", Case(patch(f"[JSONPatch{{op: 'add', path: '/data/x', value: {doubled}}}]")), "mutating")
    answer = whole.post(CONFIG_MAPS, config_map("a", {"k": "v" * 10}, labels={"case": "grows"}))
    assert answer.status == 403
    assert "resulted in error: operation cancelled: actual cost limit exceeded" in answer["message"]


def test_others_are_answered_meanwhile(server: Server) -> None:
    """One cluster evaluates what takes long; another's request does not wait for the end of it."""
    slow, quick = fresh_cluster(server, "cluster"), fresh_cluster(server, "cluster")
    register(slow, "slow", Case({"validations": [{"expression": HEAVY} for _ in range(9)]}), "validating")
    order: list[str] = []

    def write() -> None:
        slow.post(CONFIG_MAPS, config_map("a", labels={"case": "slow"}))
        order.append("slow")

    thread = threading.Thread(target=write)
    thread.start()
    for index in range(3):
        quick.post(CONFIG_MAPS, config_map(f"q{index}")).ok()
        order.append("quick")
    thread.join()
    assert order[-1] == "slow"
    slow.close()
    quick.close()


def test_an_endless_condition_costs_what_it_may(whole: Cluster) -> None:
    conditions = [{"name": f"c{i}", "expression": LOOP} for i in range(4)]
    register(whole, "no", Case({**check("true"), "matchConditions": conditions}), "validating")
    answer = whole.post(CONFIG_MAPS, config_map("a", labels={"case": "no"}))
    assert answer.status == 422
    assert "validation failed due to running out of cost budget" in answer["message"]
