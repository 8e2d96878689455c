"""Builders of pods, NodePools and nodes for the scenarios."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.provision.hosted import node_pool

Object = dict[str, Any]

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
TYPE, ARCH, SYSTEM = "node.kubernetes.io/instance-type", "kubernetes.io/arch", "kubernetes.io/os"
CAPACITY, POOL = "karpenter.sh/capacity-type", "karpenter.sh/nodepool"
Z1, Z2, Z3 = "test-zone-1", "test-zone-2", "test-zone-3"
SPOT, ON_DEMAND, RESERVED = "spot", "on-demand", "reserved"
DEFAULT, SMALL, ARM, ONE_POD = (f"{each}-instance-type" for each in ("default", "small", "arm", "single-pod"))

LABELS = {"test": "test"}
_numbers = itertools.count(1)


def expression(key: str, operator: str, *values: str, least: int | None = None) -> Object:
    found: Object = {"key": key, "operator": operator}
    found |= {"values": list(values)} if values else {}
    return found | ({"minValues": least} if least is not None else {})


def within(key: str, *values: str, least: int | None = None) -> Object:
    return expression(key, "In", *values, least=least)


def outside(key: str, *values: str) -> Object:
    return expression(key, "NotIn", *values)


def there(key: str) -> Object:
    return expression(key, "Exists")


def absent(key: str) -> Object:
    return expression(key, "DoesNotExist")


def term(*expressions: Object) -> Object:
    return {"matchExpressions": list(expressions)}


def preference(weight: int, *expressions: Object) -> Object:
    return {"weight": weight, "preference": term(*expressions)}


def near(labels: Mapping[str, str] | None, key: str, **more: Any) -> Object:
    """A term of pod affinity or anti-affinity."""
    return {"labelSelector": {"matchLabels": dict(labels or {})}, "topologyKey": key, **more}


def spread(
    key: str, skew: int = 1, labels: Mapping[str, str] | None = LABELS, *, soft: bool = False, **more: Any
) -> Object:
    """A topology spread constraint; `labels` None: without a selector."""
    selector = {} if labels is None else {"labelSelector": {"matchLabels": dict(labels)}}
    when = "ScheduleAnyway" if soft else "DoNotSchedule"
    return {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": when, **selector, **more}


def pod(
    *,
    labels: Mapping[str, str] | None = None,
    cpu: str = "",
    memory: str = "",
    requests: Mapping[str, str] | None = None,
    select: Mapping[str, str] | None = None,
    required: Sequence[Object] = (),
    terms: Sequence[Object] = (),
    preferred: Sequence[Object] = (),
    spreads: Sequence[Object] = (),
    close: Sequence[Object] = (),
    apart: Sequence[Object] = (),
    rather_close: Sequence[tuple[int, Object]] = (),
    rather_apart: Sequence[tuple[int, Object]] = (),
    ports: Sequence[int] = (),
    init: Mapping[str, str] | None = None,
    namespace: str = "default",
    **spec: Any,
) -> Object:
    """`required` are expressions of one term, `terms` are alternatives; `close` and `apart` are required."""
    number = next(_numbers)
    asked = {**({"cpu": cpu} if cpu else {}), **({"memory": memory} if memory else {}), **(requests or {})}
    container: Object = {"name": "main", "image": "registry.example/main:1", "resources": {"requests": asked}}
    if ports:
        container["ports"] = [{"containerPort": port, "hostPort": port} for port in ports]
    found: Object = {"containers": [container], **spec}
    if init:
        found["initContainers"] = [
            {"name": "init", "image": "registry.example/main:1", "resources": {"requests": dict(init)}}
        ]
    if select:
        found["nodeSelector"] = dict(select)
    if spreads:
        found["topologySpreadConstraints"] = list(spreads)
    affinity = {
        **_node_affinity([term(*required)] if required else list(terms), preferred),
        **_pod_affinity("podAffinity", close, rather_close),
        **_pod_affinity("podAntiAffinity", apart, rather_apart),
    }
    if affinity:
        found["affinity"] = affinity
    metadata = {
        "name": f"p{number:06}",
        "namespace": namespace,
        "uid": f"uid-{number:06}",
        "labels": dict(labels or {}),
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": found, "status": {"phase": "Pending"}}


def pods(count: int, **options: Any) -> list[Object]:
    return [pod(**options) for _ in range(count)]


def pool(name: str = "default", *requirements: Object, limits: Mapping[str, str] | None = None, **spec: Any) -> Object:
    """Limited to 2000 cpu unless something else is said, as all of Karpenter's test pools are."""
    found = node_pool(name, requirements, limits=dict(limits or {"cpu": "2000"}), **spec)
    found["metadata"]["uid"] = f"uid-pool-{name}"
    return found


def daemon(name: str = "agent", **options: Any) -> Object:
    template = pod(**options)
    found = {"metadata": {"labels": template["metadata"]["labels"]}, "spec": template["spec"]}
    metadata = {"name": name, "namespace": "default", "uid": f"uid-daemon-{name}"}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata, "spec": {"template": found}}


def daemon_pod(owner: Object, **options: Any) -> Object:
    found = pod(**options)
    metadata = owner["metadata"]
    reference = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": metadata["name"], "uid": metadata["uid"]}
    found["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    return found


def bare_node(
    name: str, resources: Mapping[str, str], labels: Mapping[str, str] | None = None, taints: Iterable[Object] = ()
) -> Object:
    """Nobody's: it was there before."""
    metadata = {"name": name, "labels": {HOST: name, **(labels or {})}}
    status = {"capacity": dict(resources), "allocatable": dict(resources)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": {"taints": list(taints)},
        "status": status,
    }


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> Object:
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


def tolerate(key: str = "", value: str = "", effect: str = "NoSchedule", operator: str = "Equal") -> Object:
    found = {"operator": operator, "effect": effect, "key": key, "value": value}
    return {name: each for name, each in found.items() if each}


def _node_affinity(required: Sequence[Object], preferred: Sequence[Object]) -> Object:
    found: Object = {}
    if required:
        found["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": list(required)}
    if preferred:
        found["preferredDuringSchedulingIgnoredDuringExecution"] = list(preferred)
    return {"nodeAffinity": found} if found else {}


def _pod_affinity(kind: str, required: Sequence[Object], preferred: Sequence[tuple[int, Object]]) -> Object:
    found: Object = {}
    if required:
        found["requiredDuringSchedulingIgnoredDuringExecution"] = list(required)
    if preferred:
        weighted = [{"weight": weight, "podAffinityTerm": each} for weight, each in preferred]
        found["preferredDuringSchedulingIgnoredDuringExecution"] = weighted
    return {kind: found} if found else {}
