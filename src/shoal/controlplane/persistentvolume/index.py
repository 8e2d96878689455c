"""Index functions: pods by the claims they use, volumes by claim and by class, unbound claims."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shoal.client.reflector import Key
from shoal.kinds.core.persistentvolume import BIND_COMPLETED, storage_class_of

Object = dict[str, Any]


def claim_names_of(pod: Object | None) -> set[str]:
    """Returns the names of the claims that a pod mounts."""
    volumes = pod["spec"].get("volumes") or () if pod is not None else ()
    names = ((volume.get("persistentVolumeClaim") or {}).get("claimName") for volume in volumes)
    return {name for name in names if name}


def by_used_claim(key: Key, pod: Object) -> list[Key]:
    """Index of pods by the claims they mount."""
    return [(key[0], key[1], name) for name in claim_names_of(pod)]


def changed_claims(key: Key, old: Object | None, new: Object | None) -> Iterator[Key]:
    """Yields the claims that the pod starts or stops using, or all its claims if it gets a node."""
    before, after = claim_names_of(old), claim_names_of(new)
    if before or after:
        for name in before ^ after if _node_name(old) == _node_name(new) else before | after:
            yield key[0], key[1], name


def _node_name(pod: Object | None) -> str:
    return str(pod["spec"].get("nodeName") or "") if pod is not None else ""


def by_claim_reference(key: Key, volume: Object) -> tuple[Key, ...]:
    """Index of volumes by the claim they reference."""
    claim = claim_key_of(key, volume)
    return (claim,) if claim is not None else ()


def free_by_class(key: Key, volume: Object) -> tuple[tuple[str, str], ...]:
    """Index of volumes that reference no claim by logical cluster and storage class."""
    return ((key[0], storage_class_of(volume) or ""),) if claim_key_of(key, volume) is None else ()


def claim_key_of(key: Key, volume: Object | None) -> Key | None:
    """Returns the key of the claim that a volume references, whether or not it exists."""
    reference = ((volume or {}).get("spec") or {}).get("claimRef")
    if not reference:
        return None
    return key[0], str(reference.get("namespace") or ""), str(reference.get("name") or "")


def unbound_by_cluster(key: Key, claim: Object) -> tuple[str, ...]:
    """Index of claims without a bound volume by logical cluster."""
    return (key[0],) if is_unbound(claim) else ()


def is_unbound(claim: Object) -> bool:
    return BIND_COMPLETED not in (claim["metadata"].get("annotations") or {})
