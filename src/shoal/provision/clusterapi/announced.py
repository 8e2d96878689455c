"""Announced properties of future nodes, from cluster-autoscaler's scale-from-zero annotations and from templates. Pure.

An annotation wins over the status of the infrastructure template (`status.capacity`, `status.nodeInfo`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from shoal.fit.resources import CPU, EPHEMERAL, MEMORY, PODS, Resources, amounts
from shoal.kinds.capi import CURRENT_PRICE
from shoal.kinds.karpenter import ARCHITECTURE, SYSTEM, is_ephemeral

Object = dict[str, Any]

MAX_SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
MIN_SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
CAPACITY = "capacity.cluster-autoscaler.kubernetes.io/"
_RESOURCES = {"cpu": CPU, "memory": MEMORY, "maxPods": PODS, "ephemeral-disk": EPHEMERAL}
_MOST_PODS = 110
"""The kubelet's default, if nothing is announced."""
_PER_CPU, _PER_GIGABYTE = 0.025, 0.001


def capacity(annotations: Mapping[str, str], template: Object | None, given: object = None) -> Resources:
    """Empty unless cpu and memory are known, because nothing can be planned without them. `override` wins over both
    sources.
    """
    said = {resource: annotations.get(CAPACITY + name) for name, resource in _RESOURCES.items()}
    if annotations.get(f"{CAPACITY}gpu-type"):
        said[annotations[f"{CAPACITY}gpu-type"]] = annotations.get(f"{CAPACITY}gpu-count")
    reported = amounts(_status(template).get("capacity"))
    found = reported | amounts({name: value for name, value in said.items() if value}) | amounts(given)
    return {PODS: _MOST_PODS, **found} if CPU in found and MEMORY in found else {}


def labels(annotations: Mapping[str, str], template: Object | None) -> dict[str, str]:
    """Architecture and operating system from the template, then the announced labels."""
    info = _status(template).get("nodeInfo") or {}
    reported = {ARCHITECTURE: info.get("architecture"), SYSTEM: info.get("operatingSystem")}
    found = {key: str(value) for key, value in reported.items() if value}
    pairs = (annotations.get(f"{CAPACITY}labels") or "").split(",")
    return found | dict(pair.strip().split("=", 1) for pair in pairs if "=" in pair)


def taints(annotations: Mapping[str, str]) -> tuple[Object, ...]:
    """Announced as `key=value:Effect,…`."""
    found = []
    for text in (annotations.get(f"{CAPACITY}taints") or "").split(","):
        pair, colon, effect = text.strip().rpartition(":")
        key, _, value = pair.partition("=")
        if colon and key:
            found.append({"key": key, "effect": effect, **({"value": value} if value else {})})
    return lasting(found)


def lasting(found: Iterable[Object]) -> tuple[Object, ...]:
    """Taints without those that are removed while a node starts."""
    return tuple(taint for taint in found if not is_ephemeral(taint))


def price(*holders: Object | None) -> float | None:
    """First price annotation among the holders, which are objects or templates with metadata."""
    for holder in holders:
        metadata = (holder or {}).get("metadata") or {}
        found = number((metadata.get("annotations") or {}).get(CURRENT_PRICE))
        if found is not None:
            return found
    return None


def number(said: object) -> float | None:
    """A price: any finite number that is not negative."""
    if isinstance(said, bool) or not isinstance(said, str | int | float):
        return None
    try:
        found = float(said)
    except ValueError:
        return None
    return found if math.isfinite(found) and found >= 0 else None


def guess(has: Resources) -> float:
    """Estimated price from the size, with the rates of the KWOK catalogue, so that larger machines cost more."""
    return _PER_CPU * has.get(CPU, 0) / 1000 + _PER_GIGABYTE * has.get(MEMORY, 0) / 1e9


def whole(annotations: Mapping[str, str], name: str) -> int | None:
    text = annotations.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() else None


def _status(template: Object | None) -> Object:
    return (template or {}).get("status") or {}
