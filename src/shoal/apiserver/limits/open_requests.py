"""Counts what the clients of a logical cluster hold open, its watches or its connections, up to the cluster's limit."""

from __future__ import annotations

from shoal.apiserver.limits.refusals import LimitExceeded, Refusals
from shoal.objects.errors import TooManyRequests

RETRY_AFTER_SECONDS = 1


class OpenCounter:
    """`field` is the field of `spec.limits`."""

    def __init__(self, field: str, refusals: Refusals) -> None:
        self._field, self._refusals = field, refusals
        self._counts: dict[str, int] = {}

    def check(self, cluster: str, limit: int | None) -> None:
        """Raises TooManyRequests if there is no room for one more."""
        used = self._counts.get(cluster, 0)
        if limit is not None and used >= limit:
            self._refusals.record(cluster, self._field)
            error = LimitExceeded(cluster, self._field, 1, used, limit)
            raise TooManyRequests(f"too many {self._field}: {error}", retry_after=RETRY_AFTER_SECONDS)

    def add(self, cluster: str) -> None:
        self._counts[cluster] = self._counts.get(cluster, 0) + 1

    def remove(self, cluster: str) -> None:
        left = self._counts[cluster] - 1
        if left:
            self._counts[cluster] = left
        else:
            del self._counts[cluster]

    def count(self, cluster: str) -> int:
        return self._counts.get(cluster, 0)

    def clusters(self) -> list[str]:
        return list(self._counts)
