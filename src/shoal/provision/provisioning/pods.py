"""What pods ask of a node; those that ask for the same are one shape. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from shoal.fit.ports import HostPort, host_ports
from shoal.fit.requirements import Requirements, from_pod, required_terms
from shoal.fit.resources import CPU, MEMORY, Resources, pod_requests
from shoal.kinds.karpenter import HOSTNAME, POOL_LABEL
from shoal.objects.selectors import LabelSelector, from_label_selector

Object = dict[str, Any]

_ASKS = ("nodeSelector", "affinity", "tolerations", "overhead", "resources")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True)
class Shape:
    """What pods ask of a node. Compared by identity: there is one for each way of asking."""

    requests: Resources
    alternatives: tuple[Requirements, ...]
    """Any of them will do."""
    tolerations: tuple[Object, ...]
    ports: frozenset[HostPort]
    apart: LabelSelector | None
    """It shares no node with pods that this selects, and it selects itself."""
    problem: str = ""
    """Why no node will be bought for it, whatever there is."""


@dataclass(slots=True)
class Group:
    shape: Shape
    pods: list[Object]


def groups(pods: Iterable[Object]) -> list[Group]:
    """The largest first, as they are packed: by cpu, then memory; pods of a group by age."""
    found: dict[bytes, Group] = {}
    for pod in pods:
        key = _asking(pod)
        group = found.get(key)
        if group is None:
            group = found[key] = Group(shape(pod), [])
        group.pods.append(pod)
    for group in found.values():
        group.pods.sort(key=_age)
    return sorted(found.values(), key=_size)


def shape(pod: Object) -> Shape:
    spec = pod.get("spec") or {}
    terms = required_terms(spec)
    problem = ""
    if any(term.get("matchFields") for term in terms):
        problem = "node affinity by matchFields names nodes that exist"
    try:
        alternatives = tuple(from_pod(spec, number) for number in range(max(1, len(terms))))
    except ValueError as error:
        alternatives, problem = (), str(error)
    if any(POOL_LABEL in each and each[POOL_LABEL].absent for each in alternatives):
        problem = "it wants no node of a NodePool"
    return Shape(
        requests=pod_requests(pod),
        alternatives=alternatives,
        tolerations=tuple(spec.get("tolerations") or ()),
        ports=host_ports(pod),
        apart=_apart(pod),
        problem=problem,
    )


def _asking(pod: Object) -> bytes:
    spec = pod.get("spec") or {}
    asked: Object = {name: spec[name] for name in _ASKS if name in spec}
    for field in ("containers", "initContainers"):
        asked[field] = [
            (each.get("resources"), each.get("ports"), each.get("restartPolicy")) for each in spec.get(field) or ()
        ]
    if "podAntiAffinity" in (spec.get("affinity") or {}):
        asked["labels"] = (pod["metadata"].get("namespace"), pod["metadata"].get("labels"))
    return orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)


def _apart(pod: Object) -> LabelSelector | None:
    affinity = ((pod.get("spec") or {}).get("affinity") or {}).get("podAntiAffinity") or {}
    labels = pod["metadata"].get("labels") or {}
    for term in affinity.get(REQUIRED) or ():
        selector = from_label_selector(term.get("labelSelector"))
        if term.get("topologyKey") == HOSTNAME and selector.matches(labels):
            return selector
    return None


def _size(group: Group) -> tuple[int, int, tuple[str, str, str]]:
    requests = group.shape.requests
    return -requests.get(CPU, 0), -requests.get(MEMORY, 0), _age(group.pods[0])


def _age(pod: Object) -> tuple[str, str, str]:
    metadata = pod["metadata"]
    return metadata.get("creationTimestamp", ""), metadata["name"], metadata.get("uid", "")
