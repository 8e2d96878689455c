"""LimitRange admission: defaults for pods without requests and limits, and rejections in upstream's wording."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from shoal.kinds.core.limit_ranger import (
    aggregate_errors,
    apply_limit_range_defaults,
    claim_limit_errors,
    pod_limit_errors,
)
from tests.serving import Cluster, Server, fresh_cluster

Object = dict[str, Any]
NAMESPACE = "/api/v1/namespaces/default"
PODS = f"{NAMESPACE}/pods"


@pytest.fixture
def cluster(server: Server) -> Iterator[Cluster]:
    cluster = fresh_cluster(server, profile="cluster")
    yield cluster
    cluster.close()


def limits(*items: Object) -> Object:
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": {"limits": list(items)}}


def container(name: str = "c", requests: Object | None = None, limit: Object | None = None) -> Object:
    return {"name": name, "image": "x", "resources": {"requests": requests or {}, "limits": limit or {}}}


def pod(*containers: Object, init: list[Object] | None = None) -> Object:
    spec: Object = {"containers": list(containers)}
    if init:
        spec["initContainers"] = init
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}


LITTLE = "minimum cpu usage per Container is 1, but request is 500m"
MUCH = "maximum cpu usage per Container is 1, but limit is 2"


def test_defaults_are_set_and_told(cluster: Cluster) -> None:
    item = {
        "type": "Container",
        "default": {"cpu": "500m", "memory": "256Mi"},
        "defaultRequest": {"cpu": "100m", "memory": "128Mi"},
    }
    cluster.post(f"{NAMESPACE}/limitranges", limits(item)).ok()
    made = cluster.post(PODS, pod(container("a"), container("b", {"cpu": "200m"}), init=[container("i")])).ok()
    first, second = made["spec"]["containers"]
    assert made["status"]["qosClass"] == "Burstable"
    assert first["resources"] == {
        "requests": {"cpu": "100m", "memory": "128Mi"},
        "limits": {"cpu": "500m", "memory": "256Mi"},
    }
    assert second["resources"]["requests"] == {"cpu": "200m", "memory": "128Mi"}
    assert made["spec"]["initContainers"][0]["resources"] == first["resources"]
    assert made["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: cpu, memory request for container a; cpu, memory limit for container a; "
        "memory request for container b; cpu, memory limit for container b; "
        "cpu, memory request for init container i; cpu, memory limit for init container i"
    )


def test_a_pod_beyond_the_bounds_is_refused(cluster: Cluster) -> None:
    cluster.post(f"{NAMESPACE}/limitranges", limits({"type": "Container", "max": {"cpu": "1"}})).ok()
    answer = cluster.post(PODS, pod(container(limit={"cpu": "2"})))
    assert (answer.status, answer["message"]) == (
        403,
        'pods "p" is forbidden: maximum cpu usage per Container is 1, but limit is 2',
    )
    cluster.post(PODS, pod(container(limit={"cpu": "1"}))).ok()
    cluster.patch(f"{PODS}/p", {"metadata": {"labels": {"x": "y"}}}).ok()


def test_a_claim_beyond_the_bounds_is_refused(cluster: Cluster) -> None:
    item = {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}}
    cluster.post(f"{NAMESPACE}/limitranges", limits(item)).ok()
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "3Gi"}}},
    }
    answer = cluster.post(f"{NAMESPACE}/persistentvolumeclaims", claim)
    said = "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"
    assert (answer.status, answer["message"]) == (403, f'persistentvolumeclaims "c" is forbidden: {said}')


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ({"min": {"cpu": "1"}}, "minimum cpu usage per Container is 1, but request is 500m"),
        ({"min": {"memory": "1Mi"}}, "minimum memory usage per Container is 1Mi.  No request is specified"),
        ({"max": {"cpu": "500m"}}, "maximum cpu usage per Container is 500m, but limit is 2"),
        ({"max": {"memory": "1Mi"}}, "maximum memory usage per Container is 1Mi.  No limit is specified"),
        (
            {"maxLimitRequestRatio": {"cpu": "3"}},
            "cpu max limit to request ratio per Container is 3, but provided ratio is 4.000000",
        ),
        ({"maxLimitRequestRatio": {"cpu": "4"}}, ""),
        (
            {"maxLimitRequestRatio": {"memory": "2"}},
            "memory max limit to request ratio per Container is 2, but no request is specified or request is 0",
        ),
        ({"min": {"cpu": "1"}, "max": {"cpu": "1"}}, f"[{LITTLE}, {MUCH}]"),
    ],
)
def test_what_is_said(item: Object, said: str) -> None:
    asking = pod(container(requests={"cpu": "500m"}, limit={"cpu": "2"}))
    assert aggregate_errors(pod_limit_errors(asking, limits({"type": "Container", **item}))) == said


def test_a_pod_as_a_whole() -> None:
    both = pod(container("a", limit={"cpu": "1"}), container("b", limit={"cpu": "1"}))
    item = {"type": "Pod", "max": {"cpu": "1500m"}}
    assert pod_limit_errors(both, limits(item)) == ["maximum cpu usage per Pod is 1500m, but limit is 2"]


def test_claims_have_requests_only() -> None:
    claim: Object = {"metadata": {}, "spec": {"resources": {"requests": {"storage": "1Mi"}}}}
    item = {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"odd": "1"}}
    assert claim_limit_errors(claim, limits(item)) == [
        "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi",
        "maximum odd usage per PersistentVolumeClaim is 1.  No request is specified",
    ]


def test_nothing_is_told_when_nothing_was_set() -> None:
    full = pod(container(requests={"cpu": "1"}))
    apply_limit_range_defaults(full, limits({"type": "Container", "defaultRequest": {"cpu": "2"}}))
    assert full == pod(container(requests={"cpu": "1"}))
