"""Locks of writes: what is counted or allocated from the cache holds for writes that come in one turn of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from shoal.objects.wire import Request, Response, StreamResponse, Upgrade
from tests.serving import Cluster, Server, config_map, fresh_cluster

Object = dict[str, Any]
NAMESPACE = "/api/v1/namespaces/default"
MAPS, SERVICES, PODS = f"{NAMESPACE}/configmaps", f"{NAMESPACE}/services", f"{NAMESPACE}/pods"
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
WRITERS = 8


@pytest.fixture(params=["no webhook", "a webhook that does not match", "a policy that matches"])
def cluster(still_server: Server, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    cluster = fresh_cluster(still_server, "cluster")
    rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"]}
    if request.param == "a webhook that does not match":
        webhook = {
            "name": "none.example.com",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [rule | {"resources": ["secrets"]}],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
        }
        body: Object = {"metadata": {"name": "none"}, "webhooks": [webhook]}
        cluster.post(f"{REGISTRATION}/validatingwebhookconfigurations", body).ok()
    elif request.param == "a policy that matches":
        spec = {
            "matchConstraints": {"resourceRules": [rule | {"resources": ["*"]}]},
            "validations": [{"expression": "true"}],
        }
        policy = {"metadata": {"name": "all"}, "spec": spec}
        cluster.post(f"{REGISTRATION}/validatingadmissionpolicies", policy).ok()
        binding = {"metadata": {"name": "all"}, "spec": {"policyName": "all", "validationActions": ["Deny"]}}
        cluster.post(f"{REGISTRATION}/validatingadmissionpolicybindings", binding).ok()
    yield cluster
    cluster.close()


def at_once(cluster: Cluster, *writes: tuple[str, str, Object]) -> list[Response]:
    """Starts all writes before any of them is stored."""

    async def send() -> list[Response]:
        headers = {"authorization": f"Bearer {cluster.server.token}", "content-type": "application/json"}
        patch = {**headers, "content-type": "application/merge-patch+json"}
        handle = cluster.server.shoal.server.app.handle
        pending = [
            handle(
                Request(method, cluster.prefix + path, "", patch if method == "PATCH" else headers, orjson.dumps(body))
            )
            for method, path, body in writes
        ]
        answers = []
        for each in pending:
            assert not isinstance(each, (Response, StreamResponse, Upgrade))
            answers.append(asyncio.ensure_future(each))
        return [answer for answer in await asyncio.gather(*answers) if isinstance(answer, Response)]

    return cluster.server.call(send())


def statuses(answers: list[Response]) -> list[int]:
    return sorted(answer.status for answer in answers)


def service(name: str, **spec: object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"ports": [{"port": 80, **spec}], "type": "NodePort" if spec else "ClusterIP"},
    }


def pod(name: str) -> Object:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}


def limit(cluster: Cluster, **hard: str) -> None:
    names = {name.replace("_", "/"): value for name, value in hard.items()}
    cluster.post(f"{NAMESPACE}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": names}}).ok()


def test_creates_do_not_exceed_a_quota_together(cluster: Cluster) -> None:
    limit(cluster, count_configmaps="4")  # kube-root-ca.crt is one of them
    answers = at_once(cluster, *(("POST", MAPS, config_map(f"m{number}")) for number in range(WRITERS)))
    assert statuses(answers) == [201] * 3 + [403] * (WRITERS - 3)
    assert len(cluster.get(MAPS).ok()["items"]) == 4


def test_measured_kinds_do_not_exceed_a_quota_together(cluster: Cluster) -> None:
    limit(cluster, cpu="3")
    answers = at_once(cluster, *(("POST", PODS, pod(f"p{number}")) for number in range(WRITERS)))
    assert statuses(answers) == [201] * 3 + [403] * (WRITERS - 3)


def test_a_node_port_is_given_once(cluster: Cluster) -> None:
    answers = at_once(
        cluster, *(("POST", SERVICES, service(f"s{number}", nodePort=30100)) for number in range(WRITERS))
    )
    assert statuses(answers) == [201] + [422] * (WRITERS - 1)


def test_a_node_port_is_given_once_by_updates(cluster: Cluster) -> None:
    for number in range(WRITERS):
        cluster.post(SERVICES, service(f"s{number}")).ok()
    spec = {"spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30101}]}}
    answers = at_once(cluster, *(("PATCH", f"{SERVICES}/s{number}", spec) for number in range(WRITERS)))
    assert statuses(answers) == [200] + [422] * (WRITERS - 1)


def test_updates_of_one_service_all_succeed(cluster: Cluster) -> None:
    cluster.post(SERVICES, service("s")).ok()
    labels = [{"metadata": {"labels": {f"l{number}": "x"}}} for number in range(WRITERS)]
    answers = at_once(cluster, *(("PATCH", f"{SERVICES}/s", body) for body in labels))
    assert statuses(answers) == [200] * WRITERS
    assert len(cluster.get(f"{SERVICES}/s").ok()["metadata"]["labels"]) == WRITERS


def test_locks_are_released(cluster: Cluster) -> None:
    limit(cluster, count_configmaps="2", count_services="2")
    for number in range(3):
        at_once(cluster, ("POST", MAPS, config_map(f"m{number}")), ("POST", SERVICES, service(f"s{number}")))
    locks = cluster.server.shoal.server.core.locks
    assert [key for key in locks._locks if key[0] == cluster.name] == []
