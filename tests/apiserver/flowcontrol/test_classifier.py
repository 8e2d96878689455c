"""Responses name the FlowSchema and priority level of the request, and FlowSchemas report dangling priority levels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.serving import Cluster, Server, fresh_cluster

FLOWS = "/apis/flowcontrol.apiserver.k8s.io/v1"
SCHEMA, LEVEL = "x-kubernetes-pf-flowschema-uid", "x-kubernetes-pf-prioritylevel-uid"


@pytest.fixture
def whole(server: Server) -> Iterator[Cluster]:
    cluster = fresh_cluster(server, "cluster")
    yield cluster
    cluster.close()


def uid(cluster: Cluster, plural: str, name: str) -> str:
    return str(cluster.get(f"{FLOWS}/{plural}/{name}").ok()["metadata"]["uid"])


def service_account_token(cluster: Cluster) -> str:
    found = cluster.post("/api/v1/namespaces/default/serviceaccounts/default/token", {"spec": {}}).ok()
    return str(found["status"]["token"])


def schema(name: str, level: str, user: str) -> dict[str, Any]:
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True}
    return {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "FlowSchema",
        "metadata": {"name": name},
        "spec": {
            "priorityLevelConfiguration": {"name": level},
            "matchingPrecedence": 50,
            "rules": [{"subjects": [{"kind": "User", "user": {"name": user}}], "resourceRules": [everything]}],
        },
    }


def level(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "PriorityLevelConfiguration",
        "metadata": {"name": name},
        "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}},
    }


def test_an_answer_names_the_flow_it_was_in(whole: Cluster) -> None:
    answer = whole.get("/api/v1/namespaces")
    assert answer.headers[SCHEMA] == uid(whole, "flowschemas", "exempt")
    assert answer.headers[LEVEL] == uid(whole, "prioritylevelconfigurations", "exempt")
    refused = whole.request("GET", "/api/v1/secrets", token=service_account_token(whole))
    assert refused.status == 403
    assert refused.headers[SCHEMA] == uid(whole, "flowschemas", "service-accounts")
    created = whole.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "a"}})
    assert created.headers[SCHEMA] == uid(whole, "flowschemas", "exempt")


def test_somebody_nobody_knows_is_in_no_flow(whole: Cluster) -> None:
    answer = whole.request("GET", "/api/v1/secrets", token="wrong")
    assert answer.status == 401
    assert SCHEMA not in answer.headers


def test_a_schema_counts_as_soon_as_its_level_is_there(whole: Cluster) -> None:
    token, name = service_account_token(whole), "system:serviceaccount:default:default"
    path = f"{FLOWS}/flowschemas/mine"
    made = whole.post(f"{FLOWS}/flowschemas", schema("mine", "mine", name)).ok()

    def dangling() -> dict[str, str]:
        found = whole.get(path).ok()["status"].get("conditions") or [{}]
        return dict(found[0])

    whole.eventually(lambda: dangling().get("status") == "True")
    said = 'This FlowSchema references the PriorityLevelConfiguration object named "mine" but there is no such object'
    assert dangling()["message"] == said
    before = whole.request("GET", "/api/v1/secrets", token=token)
    assert before.headers[SCHEMA] == uid(whole, "flowschemas", "service-accounts")
    whole.post(f"{FLOWS}/prioritylevelconfigurations", level("mine")).ok()
    whole.eventually(lambda: dangling().get("status") == "False")
    after = whole.request("GET", "/api/v1/secrets", token=token)
    assert after.headers[SCHEMA] == made["metadata"]["uid"]
    assert after.headers[LEVEL] == uid(whole, "prioritylevelconfigurations", "mine")
    whole.delete(f"{FLOWS}/prioritylevelconfigurations/mine").ok()
    whole.eventually(lambda: dangling().get("status") == "True")
