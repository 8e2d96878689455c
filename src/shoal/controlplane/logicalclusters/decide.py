"""What goes first when a logical cluster goes. Pure."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from shoal.kinds.logicalcluster import CONTENT_FINALIZER

Object = dict[str, Any]

LAST = ("customresourcedefinitions", "namespaces")
"""After what they hold; the definitions last but one, or their instances could no longer be named."""


class Named(Protocol):
    @property
    def plural(self) -> str: ...


N = TypeVar("N", bound=Named)


def is_terminating(cluster: Object) -> bool:
    metadata = cluster["metadata"]
    return "deletionTimestamp" in metadata and CONTENT_FINALIZER in (metadata.get("finalizers") or ())


def order(kinds: list[N]) -> list[N]:
    return sorted(kinds, key=lambda kind: LAST.index(kind.plural) if kind.plural in LAST else -1)


def without_finalizer(cluster: Object) -> Object:
    metadata = cluster["metadata"]
    kept = [finalizer for finalizer in metadata.get("finalizers") or () if finalizer != CONTENT_FINALIZER]
    return {**cluster, "metadata": {**metadata, "finalizers": kept}}
