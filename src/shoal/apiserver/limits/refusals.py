"""What was refused because of the limits of a logical cluster, and the wording."""

from __future__ import annotations


class LimitExceeded(Exception):
    """`field` is the field of `spec.limits`, empty for a fixed limit; `unit` is what is counted."""

    def __init__(self, cluster: str, field: str, requested: int, used: int, limit: int, unit: str = "") -> None:
        unit = unit or field
        super().__init__(
            f'exceeded limits of logical cluster "{cluster}", requested: {unit}={requested}, used: {unit}={used}, '
            f"limited: {unit}={limit}{f' (spec.limits.{field} of the cluster)' if field else ''}"
        )


class Refusals:
    """Counts refusals by cluster and field."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[str, int]] = {}

    def record(self, cluster: str, field: str) -> None:
        counts = self._counts.setdefault(cluster, {})
        counts[field] = counts.get(field, 0) + 1

    def counts(self, cluster: str) -> dict[str, int]:
        return self._counts.get(cluster, {})

    def clusters(self) -> list[str]:
        return list(self._counts)

    def forget(self, cluster: str) -> None:
        self._counts.pop(cluster, None)
