"""Finds which downstream objects an autoscaler of their cluster scales: the syncer leaves their replicas to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from shoal.client.reflector import Key
from shoal.kinds.autoscaling.scale_target import ScaleTarget, scale_target_of
from shoal.runtime.informer import Informer
from shoal.sync.syncer.hub_informers import SyncedResource

Object = dict[str, Any]


def by_scale_target(key: Key, obj: Object) -> tuple[tuple[str, ScaleTarget], ...]:
    """Index of autoscalers by the namespace and target that they scale."""
    target = scale_target_of(obj)
    return ((key[1], target),) if target is not None else ()


def is_autoscaled(downstream: Mapping[SyncedResource, Informer], namespace: str, kind: str, name: str) -> bool:
    """`namespace` and `name` are the cluster's. The informers are indexed `by_scale_target`."""
    target = namespace, ScaleTarget(kind, name)
    return any(informer.by_index(by_scale_target, target) for informer in downstream.values())


def scaled_objects(
    downstream: Mapping[SyncedResource, Informer], key: Key, *autoscalers: Object | None
) -> Iterator[tuple[SyncedResource, Object]]:
    """Returns the synced objects that the autoscalers, versions of the one with that key, scale or scaled."""
    targets = {scale_target_of(obj) for obj in autoscalers if obj is not None} - {None}
    for target in targets:
        for resource, informer in downstream.items():
            copy = (
                informer.get(("", key[1], target.name)) if target is not None and resource.kind == target.kind else None
            )
            if copy is not None:
                yield resource, copy
