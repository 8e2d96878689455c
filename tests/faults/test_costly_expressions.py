"""Expressions of policies and rules: what they cost is counted before it is done, and none holds the event loop."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.faults.stalls import STALL, stalls, without_garbage_collector
from tests.faults.test_heavy_requests import NOTES, note, notes_definition
from tests.serving import DEFINITIONS, Cluster, Server, config_map, fresh_cluster

MAPS = "/api/v1/namespaces/default/configmaps"
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
LONG_TURN = 0.15
"""CPU-seconds. A turn has 10 ms for slices; the native calls that follow take about as long for such an object."""
EXCEEDED = "operation cancelled: actual cost limit exceeded"

Object = dict[str, Any]


@pytest.fixture
def whole(server: Server) -> Iterator[Cluster]:
    """Resources of all groups."""
    found = fresh_cluster(server, "cluster")
    yield found
    found.close()


def bind_policy(cluster: Cluster, name: str, *expressions: str, **spec: object) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    spec["matchConstraints"] = {"resourceRules": [rule]}
    spec["validations"] = [{"expression": each} for each in expressions]
    cluster.post(f"{REGISTRATION}/validatingadmissionpolicies", {"metadata": {"name": name}, "spec": spec}).ok()
    binding = {"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}}
    cluster.post(f"{REGISTRATION}/validatingadmissionpolicybindings", binding).ok()


def bind_mutation(cluster: Cluster, expression: str) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    mutation = {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "mutations": [mutation], "reinvocationPolicy": "Never"}
    cluster.post(f"{REGISTRATION}/mutatingadmissionpolicies", {"metadata": {"name": "m"}, "spec": spec}).ok()
    binding = {"metadata": {"name": "m"}, "spec": {"policyName": "m"}}
    cluster.post(f"{REGISTRATION}/mutatingadmissionpolicybindings", binding).ok()


def wide(name: str, count: int) -> Object:
    return config_map(name, {f"k{number}": "v" for number in range(count)})


@pytest.mark.parametrize(
    "expression",
    [
        "object.data == object.data",
        "[object.data] == [object.data]",
        "object.data in [object.data]",
        "'%s'.format([object.data]) != ''",
        "!isURL(object.data.map(name, name).join(','))",
    ],
)
def test_what_a_call_reads_is_counted(whole: Cluster, expression: str) -> None:
    """Each took 2 to 30 seconds for an object of 32 KB."""
    bind_policy(whole, "costly", f"object.data.all(name, {expression})")
    with stalls(whole.server) as found:
        whole.eventually(lambda: EXCEEDED in str(whole.post(f"{MAPS}?dryRun=All", wide("m", 2_000)).body))
    assert found.longest < STALL


def test_one_search_of_a_regular_expression_runs_in_slices(server: Server, whole: Cluster) -> None:
    """Its cost is charged before it begins."""
    bind_policy(whole, "search", "object.data.all(a, object.data[a].findAll('(a|b|ab|c)*d').size() > 0)")
    long = config_map("m", {"k": "ab" * 9_000})
    whole.eventually(lambda: whole.post(f"{MAPS}?dryRun=All", long).status == 422)
    with without_garbage_collector(), stalls(server, time.process_time) as found:
        assert whole.post(f"{MAPS}?dryRun=All", long).status == 422
    assert found.longest < LONG_TURN


@pytest.mark.parametrize("sort", ["policy", "mutation", "match condition"])
def test_one_costly_expression_is_evaluated_in_slices(server: Server, whole: Cluster, sort: str) -> None:
    """One call may cost a million units, which held the event loop for up to a second."""
    costly = "object.data.all(a, object.data.all(b, a != b + 'c'))"
    if sort == "policy":
        bind_policy(whole, "costly", costly)
    elif sort == "match condition":
        bind_policy(whole, "costly", "true", matchConditions=[{"name": "costly", "expression": costly}])
    else:
        bind_mutation(whole, f"{costly} ? [] : [JSONPatch{{op: 'remove', path: '/data'}}]")
    whole.eventually(lambda: whole.post(f"{MAPS}?dryRun=All", wide("m", 900)).status >= 400)
    with without_garbage_collector(), stalls(server, time.process_time) as found:
        for _ in range(3):
            assert EXCEEDED in str(whole.post(f"{MAPS}?dryRun=All", wide("m", 900)).body)
    assert found.longest < LONG_TURN


def test_many_expressions_are_compiled_in_turns(whole: Cluster) -> None:
    """All of a cluster were compiled in one turn, at the first write after a change."""
    with stalls(whole.server) as found:
        bind_policy(whole, "p", *(f"has(object.data) || {number} in [1, 2]" for number in range(7_000)))
        bind_policy(whole, "q", "false")
        whole.eventually(lambda: "failed expression: false" in str(whole.post(MAPS, config_map("m", {"a": "b"})).body))
    assert found.longest < STALL


def test_costly_rules_of_a_small_object_are_evaluated_elsewhere(cluster: Cluster) -> None:
    """Rules may cost 10 million units for each object, which is 5 seconds. These are half of that."""
    costly = "self.all(a, self.all(b, url('https://a.b/c').getHost() != ''))"
    rules = [{"rule": f"{costly} && {number} >= 0"} for number in range(4)]
    rules.append({"rule": "self.all(a, a != 'bad')", "message": "is bad"})
    items = {"type": "string", "maxLength": 5}
    listed = {"type": "array", "maxItems": 350, "items": items, "x-kubernetes-validations": rules}
    cluster.post(DEFINITIONS, notes_definition(type="object", properties={"listed": listed})).ok()
    with stalls(cluster.server) as found:
        made = cluster.post(NOTES, note("good", listed=["a"] * 300)).ok()
        refused = cluster.post(NOTES, note("bad", listed=["a"] * 299 + ["bad"]))
    assert len(made["listed"]) == 300
    assert refused.status == 422
    assert refused["message"] == 'Note.example.com "bad" is invalid: listed: Invalid value: is bad'
    assert found.longest < STALL
