"""Detects changes that may allow a disruption. Frequent status updates of nodes and pods are ignored.

Fingerprints are kept here, because own writes observed by the shared informers would hide changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.client.reflector import Key
from shoal.kinds.karpenter import CONSOLIDATABLE, DRIFTED, INITIALIZED, INSTANCE_TERMINATING, READY, is_going
from shoal.objects.conditions import condition_is
from shoal.provision.cloudprovider import CloudProvider
from shoal.provision.shelf import Shelf, Told
from shoal.provision.view import View

Object = dict[str, Any]
Seen = tuple[object, ...]


class Changes:
    def __init__(self, view: View, provider: CloudProvider) -> None:
        self._told: list[Callable[[str], None]] = []
        self._view = view
        kinds: tuple[tuple[Shelf, Callable[[Object], Seen]], ...] = (
            (view.pods, _pod),
            (view.nodes, _node),
            (view.claims, _claim),
            (view.pools, _spec),
            (view.pdbs, _pdb),
            (view.overlays, _overlay),
        )
        for shelf, look in kinds:
            shelf.listen(self._listener(look))
        provider.listen(lambda cluster, claim: None if claim else self._changed(cluster))

    def tell(self, told: Callable[[str], None]) -> None:
        self._told.append(told)

    def _listener(self, look: Callable[[Object], Seen]) -> Told:
        known: dict[Key, Seen] = {}

        def told(key: Key, old: Object | None, new: Object | None) -> None:
            if new is None:
                known.pop(key, None)
                self._changed(key[0])
                return
            seen = look(new)
            if known.get(key) != seen:
                known[key] = seen
                self._changed(key[0])

        return told

    def _changed(self, cluster: str) -> None:
        if self._view.pools.of(cluster):
            for told in self._told:
                told(cluster)


def _pod(pod: Object) -> Seen:
    metadata, status = pod["metadata"], pod.get("status") or {}
    return (
        metadata["uid"],
        metadata.get("labels"),
        metadata.get("annotations"),
        is_going(pod),
        pod["spec"].get("nodeName"),
        status.get("phase"),
    )


def _node(node: Object) -> Seen:
    metadata, spec = node["metadata"], node.get("spec") or {}
    return (
        metadata["uid"],
        metadata.get("labels"),
        metadata.get("annotations"),
        is_going(node),
        spec.get("taints"),
        spec.get("unschedulable"),
        (node.get("status") or {}).get("allocatable"),
        condition_is(node, READY),
    )


def _claim(claim: Object) -> Seen:
    metadata = claim["metadata"]
    told = (condition_is(claim, each) for each in (INITIALIZED, CONSOLIDATABLE, DRIFTED, INSTANCE_TERMINATING))
    return metadata["uid"], metadata.get("labels"), metadata.get("annotations"), is_going(claim), *told


def _spec(pool: Object) -> Seen:
    return pool["metadata"]["uid"], pool.get("spec"), condition_is(pool, READY), is_going(pool)


def _pdb(pdb: Object) -> Seen:
    return pdb.get("spec"), bool((pdb.get("status") or {}).get("disruptionsAllowed"))


def _overlay(overlay: Object) -> Seen:
    return overlay.get("spec"), (overlay.get("status") or {}).get("conditions")
