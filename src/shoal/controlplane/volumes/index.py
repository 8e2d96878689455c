"""Indexes of pods by claim and of volumes by claim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.client.reflector import Key
from shoal.kinds.volumes import class_of
from shoal.runtime.dependents import Dependents

Object = dict[str, Any]


def claims_of(pod: Object | None) -> set[str]:
    """Returns the names of the claims that a pod mounts."""
    volumes = pod["spec"].get("volumes") or () if pod is not None else ()
    found = ((volume.get("persistentVolumeClaim") or {}).get("claimName") for volume in volumes)
    return {name for name in found if name}


class ClaimUsers:
    def __init__(self, pods: Dependents) -> None:
        self.listeners: list[Callable[[Key], None]] = []
        """Called with a claim that a pod starts or stops using, or whose pod gets a node."""
        self._users: dict[Key, dict[Key, Object]] = {}
        pods.listeners.append(self._changed)

    def of(self, claim: Key) -> list[Object]:
        return list(self._users.get(claim, {}).values())

    def _changed(self, key: Key, before: Object | None, now: Object | None) -> None:
        old, new = claims_of(before), claims_of(now)
        if not old and not new:
            return
        for name in new:
            self._users.setdefault((key[0], key[1], name), {})[key] = now  # type: ignore[assignment]
        for name in old - new:
            claim = (key[0], key[1], name)
            self._users[claim].pop(key, None)
            if not self._users[claim]:
                del self._users[claim]
        told = old ^ new if _node(before) == _node(now) else old | new
        for name in told:
            for listener in self.listeners:
                listener((key[0], key[1], name))


def _node(pod: Object | None) -> str:
    return str(pod["spec"].get("nodeName") or "") if pod is not None else ""


class VolumeIndex:
    def __init__(self, volumes: Dependents) -> None:
        self._claimed: dict[Key, dict[Key, Object]] = {}
        self._free: dict[tuple[str, str], dict[Key, Object]] = {}
        """By cluster and class: volumes without a claim."""
        volumes.listeners.append(self._changed)

    def for_claim(self, claim: Key) -> list[Object]:
        return list(self._claimed.get(claim, {}).values())

    def candidates(self, claim: Key, storage_class: str) -> list[Object]:
        return [*self.for_claim(claim), *self._free.get((claim[0], storage_class), {}).values()]

    def _changed(self, key: Key, before: Object | None, now: Object | None) -> None:
        if before is not None:
            index, place = self._place(key, before)
            members = index[place]
            members.pop(key, None)
            if not members:
                del index[place]
        if now is not None:
            index, place = self._place(key, now)
            index.setdefault(place, {})[key] = now

    def _place(self, key: Key, volume: Object) -> tuple[dict[Any, dict[Key, Object]], Any]:
        claim = claimant(key, volume)
        return (self._claimed, claim) if claim is not None else (self._free, (key[0], class_of(volume) or ""))


def claimant(key: Key, volume: Object | None) -> Key | None:
    """Returns the key of the claim that a volume references, whether or not it exists."""
    reference = ((volume or {}).get("spec") or {}).get("claimRef")
    if not reference:
        return None
    return key[0], str(reference.get("namespace") or ""), str(reference.get("name") or "")
