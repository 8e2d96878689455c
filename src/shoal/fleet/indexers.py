"""Index functions that several of the fleet's informers use."""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.kinds.fleet import infrav1

Object = dict[str, Any]


def by_assigned_worker(key: Key, managed: Object) -> tuple[str, ...]:
    """Index of ManagedClusters by the Worker they are assigned to."""
    worker = infrav1.assigned_worker(managed)
    return (worker,) if worker else ()
