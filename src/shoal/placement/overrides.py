"""Applies a Placement's per-cluster overrides to a leaf. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.objects import jsonpatch
from shoal.placement.policy import OverrideRule, PlacementPolicy

Object = dict[str, Any]

CONTAINER_FIELDS = ("containers", "initContainers", "ephemeralContainers")


def apply_overrides(leaf: Object, policy: PlacementPolicy, cluster: str, labels: Mapping[str, str]) -> Object:
    """Raises StatusError if a patch does not apply. Name, namespace, owner and cluster label stay unchanged."""
    for one in policy.overrides:
        if one.selector.matches(cluster, labels):
            leaf = _apply_override(leaf, one)
    return leaf


def has_overrides(policy: PlacementPolicy, cluster: str, labels: Mapping[str, str]) -> bool:
    return any(one.selector.matches(cluster, labels) for one in policy.overrides)


def _apply_override(leaf: Object, override: OverrideRule) -> Object:
    patched = leaf
    if override.registry:
        patched = _with_registry(patched, override.registry)
    if override.patch:
        patched = jsonpatch.apply(patched, list(override.patch))
    original = leaf["metadata"]
    metadata = {
        **patched["metadata"],
        **{k: original[k] for k in ("name", "namespace", "ownerReferences") if k in original},
    }
    labels = {**(metadata.get("labels") or {}), **{k: v for k, v in original["labels"].items() if "kcp.dev/" in k}}
    return {
        **patched,
        "apiVersion": leaf["apiVersion"],
        "kind": leaf["kind"],
        "metadata": {**metadata, "labels": labels},
    }


def _with_registry(leaf: Object, registry: str) -> Object:
    """Replaces the registry in the pod template or the pod; other kinds have no images."""
    spec = leaf.get("spec") or {}
    template = spec.get("template")
    if isinstance(template, dict) and isinstance(template.get("spec"), dict):
        pod = _with_registry_in_pod(template["spec"], registry)
        return {**leaf, "spec": {**spec, "template": {**template, "spec": pod}}}
    return {**leaf, "spec": _with_registry_in_pod(spec, registry)} if leaf["kind"] == "Pod" else leaf


def _with_registry_in_pod(spec: Object, registry: str) -> Object:
    updated = {
        field: [
            {**one, "image": _replace_registry(one["image"], registry)} if one.get("image") else one
            for one in spec[field]
        ]
        for field in CONTAINER_FIELDS
        if spec.get(field)
    }
    return {**spec, **updated}


def _replace_registry(image: str, registry: str) -> str:
    """The first part of an image's name is a registry if it has a dot or a port, or is localhost."""
    first, slash, rest = image.partition("/")
    is_registry = bool(slash) and ("." in first or ":" in first or first == "localhost")
    return f"{registry.rstrip('/')}/{rest if is_registry else image}"
