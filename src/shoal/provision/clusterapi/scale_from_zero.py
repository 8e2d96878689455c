"""Announced properties of future nodes, from cluster-autoscaler's scale-from-zero annotations and from templates. Pure.

An annotation wins over the status of the infrastructure template (`status.capacity`, `status.nodeInfo`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from shoal.fit.resources import CPU, EPHEMERAL, MEMORY, PODS, Resources, parse_amounts
from shoal.kinds.clusterapi.capi import CURRENT_PRICE
from shoal.kinds.karpenter.karpenter import ARCHITECTURE, NODE_CLASS_GROUP, SYSTEM, is_ephemeral_taint

Object = dict[str, Any]

MAX_SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
MIN_SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
RESERVED_RESOURCES = f"{NODE_CLASS_GROUP}/reserved-resources"
"""Annotation of a MachineDeployment or a template: what its nodes reserve for the system."""
CAPACITY_PREFIX = "capacity.cluster-autoscaler.kubernetes.io/"
_RESOURCES = {"cpu": CPU, "memory": MEMORY, "maxPods": PODS, "ephemeral-disk": EPHEMERAL}
_DEFAULT_MAX_PODS = 110
"""The kubelet's default, if nothing is announced."""
_PRICE_PER_CPU, _PRICE_PER_GIGABYTE = 0.025, 0.001


def capacity(annotations: Mapping[str, str], template: Object | None, override: object = None) -> Resources:
    """Empty unless cpu and memory are known, because nothing can be planned without them. `override` wins over both
    sources.
    """
    announced = {resource: annotations.get(CAPACITY_PREFIX + name) for name, resource in _RESOURCES.items()}
    if annotations.get(f"{CAPACITY_PREFIX}gpu-type"):
        announced[annotations[f"{CAPACITY_PREFIX}gpu-type"]] = annotations.get(f"{CAPACITY_PREFIX}gpu-count")
    reported = parse_amounts(_status(template).get("capacity"))
    resources = (
        reported | parse_amounts({name: value for name, value in announced.items() if value}) | parse_amounts(override)
    )
    return {PODS: _DEFAULT_MAX_PODS, **resources} if CPU in resources and MEMORY in resources else {}


def reserved_resources(*holders: Object | None) -> Resources:
    """Resources that pods do not get on a node: of kube-reserved, system-reserved and eviction thresholds. From the
    first annotation among the holders, `name=quantity,…`.
    """
    for holder in holders:
        text = (((holder or {}).get("metadata") or {}).get("annotations") or {}).get(RESERVED_RESOURCES)
        if text:
            pairs = (each.partition("=") for each in text.split(","))
            return parse_amounts({name.strip(): amount.strip() for name, _, amount in pairs if amount.strip()})
    return {}


def labels(annotations: Mapping[str, str], template: Object | None) -> dict[str, str]:
    """Architecture and operating system from the template, then the announced labels."""
    info = _status(template).get("nodeInfo") or {}
    reported = {ARCHITECTURE: info.get("architecture"), SYSTEM: info.get("operatingSystem")}
    node_labels = {key: str(value) for key, value in reported.items() if value}
    index = (annotations.get(f"{CAPACITY_PREFIX}labels") or "").split(",")
    return node_labels | dict(pair.strip().split("=", 1) for pair in index if "=" in pair)


def taints(annotations: Mapping[str, str]) -> tuple[Object, ...]:
    """Announced as `key=value:Effect,…`."""
    parsed = []
    for text in (annotations.get(f"{CAPACITY_PREFIX}taints") or "").split(","):
        pair, colon, effect = text.strip().rpartition(":")
        key, _, value = pair.partition("=")
        if colon and key:
            parsed.append({"key": key, "effect": effect, **({"value": value} if value else {})})
    return permanent_taints(parsed)


def permanent_taints(all_taints: Iterable[Object]) -> tuple[Object, ...]:
    """Taints without those that are removed while a node starts."""
    return tuple(taint for taint in all_taints if not is_ephemeral_taint(taint))


def price(*holders: Object | None) -> float | None:
    """First price annotation among the holders, which are objects or templates with metadata."""
    for holder in holders:
        metadata = (holder or {}).get("metadata") or {}
        value = parse_price((metadata.get("annotations") or {}).get(CURRENT_PRICE))
        if value is not None:
            return value
    return None


def parse_price(value: object) -> float | None:
    """A price: any finite number that is not negative."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        parsed = float(value)
    except ValueError:
        return None
    return parsed if math.isfinite(parsed) and parsed >= 0 else None


def estimated_price(resources: Resources) -> float:
    """Estimated price from the size, with the rates of the KWOK catalogue, so that larger machines cost more."""
    return _PRICE_PER_CPU * resources.get(CPU, 0) / 1000 + _PRICE_PER_GIGABYTE * resources.get(MEMORY, 0) / 1e9


def parse_integer(annotations: Mapping[str, str], name: str) -> int | None:
    text = annotations.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() else None


def _status(template: Object | None) -> Object:
    return (template or {}).get("status") or {}
