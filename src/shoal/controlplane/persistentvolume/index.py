"""Indexes of pods by claim and of volumes by claim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.client.reflector import Key
from shoal.kinds.core.persistentvolume import storage_class_of
from shoal.runtime.indexed_informer import IndexedInformer

Object = dict[str, Any]


def claim_names_of(pod: Object | None) -> set[str]:
    """Returns the names of the claims that a pod mounts."""
    volumes = pod["spec"].get("volumes") or () if pod is not None else ()
    names = ((volume.get("persistentVolumeClaim") or {}).get("claimName") for volume in volumes)
    return {name for name in names if name}


class ClaimUserIndex:
    def __init__(self, pods: IndexedInformer) -> None:
        self.event_handlers: list[Callable[[Key], None]] = []
        """Called with a claim that a pod starts or stops using, or whose pod gets a node."""
        self._users: dict[Key, dict[Key, Object]] = {}
        pods.event_handlers.append(self._on_pod)

    def pods_using(self, claim: Key) -> list[Object]:
        return list(self._users.get(claim, {}).values())

    def _on_pod(self, key: Key, before: Object | None, now: Object | None) -> None:
        old, new = claim_names_of(before), claim_names_of(now)
        if not old and not new:
            return
        for name in new:
            self._users.setdefault((key[0], key[1], name), {})[key] = now  # type: ignore[assignment]
        for name in old - new:
            claim = (key[0], key[1], name)
            self._users[claim].pop(key, None)
            if not self._users[claim]:
                del self._users[claim]
        changed_claims = old ^ new if _node_name(before) == _node_name(now) else old | new
        for name in changed_claims:
            for handler in self.event_handlers:
                handler((key[0], key[1], name))


def _node_name(pod: Object | None) -> str:
    return str(pod["spec"].get("nodeName") or "") if pod is not None else ""


class VolumeIndex:
    def __init__(self, volumes: IndexedInformer) -> None:
        self._claimed: dict[Key, dict[Key, Object]] = {}
        self._free: dict[tuple[str, str], dict[Key, Object]] = {}
        """By cluster and class: volumes without a claim."""
        volumes.event_handlers.append(self._on_volume)

    def for_claim(self, claim: Key) -> list[Object]:
        return list(self._claimed.get(claim, {}).values())

    def candidates(self, claim: Key, storage_class: str) -> list[Object]:
        return [*self.for_claim(claim), *self._free.get((claim[0], storage_class), {}).values()]

    def _on_volume(self, key: Key, old: Object | None, new: Object | None) -> None:
        if old is not None:
            index, index_key = self._bucket_of(key, old)
            members = index[index_key]
            members.pop(key, None)
            if not members:
                del index[index_key]
        if new is not None:
            index, index_key = self._bucket_of(key, new)
            index.setdefault(index_key, {})[key] = new

    def _bucket_of(self, key: Key, volume: Object) -> tuple[dict[Any, dict[Key, Object]], Any]:
        claim = claim_key_of(key, volume)
        return (self._claimed, claim) if claim is not None else (self._free, (key[0], storage_class_of(volume) or ""))


def claim_key_of(key: Key, volume: Object | None) -> Key | None:
    """Returns the key of the claim that a volume references, whether or not it exists."""
    reference = ((volume or {}).get("spec") or {}).get("claimRef")
    if not reference:
        return None
    return key[0], str(reference.get("namespace") or ""), str(reference.get("name") or "")
