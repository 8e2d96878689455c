"""Applies a Placement's per-cluster overrides to a leaf. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.objects import jsonpatch
from shoal.placement.policy import Override, Policy

Object = dict[str, Any]

CONTAINERS = ("containers", "initContainers", "ephemeralContainers")


def overridden(leaf: Object, policy: Policy, cluster: str, labels: Mapping[str, str]) -> Object:
    """Raises StatusError if a patch does not apply. Name, namespace, owner and cluster label stay unchanged."""
    for one in policy.overrides:
        if one.group.has(cluster, labels):
            leaf = _applied(leaf, one)
    return leaf


def applies(policy: Policy, cluster: str, labels: Mapping[str, str]) -> bool:
    return any(one.group.has(cluster, labels) for one in policy.overrides)


def _applied(leaf: Object, override: Override) -> Object:
    changed = leaf
    if override.registry:
        changed = _with_registry(changed, override.registry)
    if override.patch:
        changed = jsonpatch.apply(changed, list(override.patch))
    kept = leaf["metadata"]
    metadata = {**changed["metadata"], **{k: kept[k] for k in ("name", "namespace", "ownerReferences") if k in kept}}
    labels = {**(metadata.get("labels") or {}), **{k: v for k, v in kept["labels"].items() if "kcp.dev/" in k}}
    return {
        **changed,
        "apiVersion": leaf["apiVersion"],
        "kind": leaf["kind"],
        "metadata": {**metadata, "labels": labels},
    }


def _with_registry(leaf: Object, registry: str) -> Object:
    """Replaces the registry in the pod template or the pod; other kinds have no images."""
    spec = leaf.get("spec") or {}
    template = spec.get("template")
    if isinstance(template, dict) and isinstance(template.get("spec"), dict):
        pod = _pod(template["spec"], registry)
        return {**leaf, "spec": {**spec, "template": {**template, "spec": pod}}}
    return {**leaf, "spec": _pod(spec, registry)} if leaf["kind"] == "Pod" else leaf


def _pod(spec: Object, registry: str) -> Object:
    named = {
        field: [{**one, "image": _moved(one["image"], registry)} if one.get("image") else one for one in spec[field]]
        for field in CONTAINERS
        if spec.get(field)
    }
    return {**spec, **named}


def _moved(image: str, registry: str) -> str:
    """The first part of an image's name is a registry if it has a dot or a port, or is localhost."""
    first, slash, rest = image.partition("/")
    is_registry = bool(slash) and ("." in first or ":" in first or first == "localhost")
    return f"{registry.rstrip('/')}/{rest if is_registry else image}"
