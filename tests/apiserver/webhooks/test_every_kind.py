"""Objects of every kind are stored unchanged after webhooks, except for the label one of them sets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.apiserver.test_every_kind import KINDS, identity, paths, sample
from tests.apiserver.webhooks.receiver import Hooks, Receiver, add, allow, patch, rule
from tests.serving import Cluster, Server, fresh_cluster

Object = dict[str, Any]
CLASSES: list[tuple[str, Object]] = [
    ("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 7}),
    (
        "/apis/node.k8s.io/v1/runtimeclasses",
        {
            "metadata": {"name": "kata"},
            "handler": "kata",
            "overhead": {"podFixed": {"cpu": "10m"}},
            "scheduling": {"nodeSelector": {"k": "v"}, "tolerations": [{"key": "kata", "operator": "Exists"}]},
        },
    ),
    (
        "/api/v1/namespaces/default/limitranges",
        {
            "metadata": {"name": "l"},
            "spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "5m"}}]},
        },
    ),
]
BOTH = {"priorityClassName": "high", "runtimeClassName": "kata", "containers": [{"name": "c", "image": "i"}]}


@pytest.fixture(scope="module")
def twins(still_server: Server, receiver: Receiver) -> Iterator[tuple[Cluster, Cluster]]:
    """The first has webhooks that look at everything."""
    looked_at, plain = (fresh_cluster(still_server, "cluster") for _ in range(2))
    for path, body in CLASSES:
        for cluster in (looked_at, plain):
            cluster.post(path, body).ok()
    hooks = Hooks(looked_at, receiver)
    everything = [rule("*/*")]
    label = patch(add("/metadata/labels/looked", "at"))
    chosen = {"objectSelector": {"matchLabels": {"looked": "not"}}, "reinvocationPolicy": "IfNeeded"}
    hooks.register("mutating", hooks.hook("change", label, rules=everything, **chosen))
    hooks.register("validating", hooks.hook("look", allow, rules=everything))
    yield looked_at, plain
    looked_at.close()
    plain.close()


def essence(obj: Object) -> Object:
    """Without what is another in every cluster."""
    address = (obj.get("spec") or {}).get("clusterIP") or "none"
    obj = json.loads(json.dumps(obj).replace(obj["metadata"]["uid"], "UID").replace(address, "ADDRESS"))
    own = ("uid", "creationTimestamp", "resourceVersion", "managedFields", "labels")
    found = {key: value for key, value in obj.items() if key != "metadata"}
    found["metadata"] = {key: value for key, value in obj["metadata"].items() if key not in own}
    (found.get("status") or {}).pop("lastPhaseTransitionTime", None)
    for condition in (found.get("status") or {}).get("conditions") or ():
        condition.pop("lastTransitionTime", None)
    return found


@pytest.mark.parametrize("builtin", KINDS, ids=identity)
def test_every_kind(twins: tuple[Cluster, Cluster], builtin: Any) -> None:
    collection, path = paths(builtin)
    body = sample(builtin)
    body["metadata"]["labels"] = {"looked": "not"}
    made = [cluster.post(collection, body).ok() for cluster in twins]
    assert essence(made[0]) == essence(made[1])
    asked = builtin.group != "admissionregistration.k8s.io"
    assert made[0]["metadata"]["labels"]["looked"] == ("at" if asked else "not")
    changed = [cluster.patch(path, {"metadata": {"labels": {"more": "1"}}}).ok() for cluster in twins]
    assert essence(changed[0]) == essence(changed[1])
    for cluster in twins:
        assert cluster.delete(path).status == 200


def test_a_pod_of_every_class(twins: tuple[Cluster, Cluster]) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"looked": "not"}}, "spec": BOTH}
    made = [cluster.post("/api/v1/namespaces/default/pods", pod).ok() for cluster in twins]
    assert essence(made[0]) == essence(made[1])
    assert made[0]["spec"]["priority"] == 7
    assert made[0]["spec"]["overhead"] == {"cpu": "10m"}
