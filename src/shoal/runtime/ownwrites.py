"""Nothing is decided on a view that has not yet seen the loop's own last writes.

A store gives its writes one line of revisions, and a view is complete up to its own: a comparison tells whether what
was written for a key is in sight, without counting objects and without a time after which one gives up.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Generic, Protocol, TypeVar

Object = dict[str, Any]
K = TypeVar("K", bound=Hashable)


class View(Protocol):
    @property
    def revision(self) -> int: ...


class OwnWrites(Generic[K]):
    """Of one loop into the kind that `view` shows."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._written: dict[K, int] = {}

    def wrote(self, key: K, obj: Object) -> None:
        """`obj` as the server answered it."""
        revision = int(obj["metadata"].get("resourceVersion") or 0)
        if revision > self._written.get(key, 0):
            self._written[key] = revision

    def in_sight(self, key: K) -> bool:
        revision = self._written.get(key)
        if revision is None:
            return True
        if self._view.revision < revision:
            return False
        del self._written[key]
        return True

    def forget(self, key: K) -> None:
        self._written.pop(key, None)
