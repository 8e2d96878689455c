"""Detects changes that may allow a disruption. Frequent status updates of nodes and pods are ignored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shoal.client.reflector import Key
from shoal.kinds.karpenter.karpenter import (
    CONSOLIDATABLE,
    DRIFTED,
    INITIALIZED,
    INSTANCE_TERMINATING,
    READY,
    is_deleting,
)
from shoal.objects.conditions import condition_is
from shoal.provision.cloudprovider.types import CloudProvider
from shoal.provision.state import ClusterState
from shoal.runtime.informer import EventHandler, Informer
from shoal.runtime.informer_store import by_cluster

Object = dict[str, Any]
Fingerprint = tuple[object, ...]


class ChangeDetector:
    def __init__(self, state: ClusterState, provider: CloudProvider) -> None:
        self._handlers: list[Callable[[str], None]] = []
        self._state = state
        sources: tuple[tuple[Informer, Callable[[Object], Fingerprint]], ...] = (
            (state.pods, _pod_fingerprint),
            (state.nodes, _node_fingerprint),
            (state.node_claims, _claim_fingerprint),
            (state.node_pools, _pool_fingerprint),
            (state.pdbs, _pdb_fingerprint),
            (state.node_overlays, _overlay_fingerprint),
        )
        for informer, fingerprint_of in sources:
            informer.add_event_handler(self._new_handler(fingerprint_of))
        provider.add_event_handler(lambda cluster, claim: None if claim else self._notify(cluster))

    def add_handler(self, handler: Callable[[str], None]) -> None:
        self._handlers.append(handler)

    def _new_handler(self, fingerprint_of: Callable[[Object], Fingerprint]) -> EventHandler:
        def on_event(key: Key, old: Object | None, new: Object | None) -> None:
            if old is None or new is None or fingerprint_of(old) != fingerprint_of(new):
                self._notify(key[0])

        return on_event

    def _notify(self, cluster: str) -> None:
        if self._state.node_pools.by_index(by_cluster, cluster):
            for handler in self._handlers:
                handler(cluster)


def _pod_fingerprint(pod: Object) -> Fingerprint:
    metadata, status = pod["metadata"], pod.get("status") or {}
    return (
        metadata["uid"],
        metadata.get("labels"),
        metadata.get("annotations"),
        is_deleting(pod),
        pod["spec"].get("nodeName"),
        status.get("phase"),
    )


def _node_fingerprint(node: Object) -> Fingerprint:
    metadata, spec = node["metadata"], node.get("spec") or {}
    return (
        metadata["uid"],
        metadata.get("labels"),
        metadata.get("annotations"),
        is_deleting(node),
        spec.get("taints"),
        spec.get("unschedulable"),
        (node.get("status") or {}).get("allocatable"),
        condition_is(node, READY),
    )


def _claim_fingerprint(claim: Object) -> Fingerprint:
    metadata = claim["metadata"]
    conditions = (condition_is(claim, each) for each in (INITIALIZED, CONSOLIDATABLE, DRIFTED, INSTANCE_TERMINATING))
    return metadata["uid"], metadata.get("labels"), metadata.get("annotations"), is_deleting(claim), *conditions


def _pool_fingerprint(pool: Object) -> Fingerprint:
    return pool["metadata"]["uid"], pool.get("spec"), condition_is(pool, READY), is_deleting(pool)


def _pdb_fingerprint(pdb: Object) -> Fingerprint:
    return pdb.get("spec"), bool((pdb.get("status") or {}).get("disruptionsAllowed"))


def _overlay_fingerprint(overlay: Object) -> Fingerprint:
    return overlay.get("spec"), (overlay.get("status") or {}).get("conditions")
