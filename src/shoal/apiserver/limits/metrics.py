"""What logical clusters use of their limits and what was refused, also as metrics.

A server with ten thousand clusters reports those that use the most, so that a scrape stays small. A cluster that asks
for its own metrics gets all of its numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nlargest

from shoal.apiserver.cache.cacher import WatchCache
from shoal.apiserver.limits import ServerLimits
from shoal.apiserver.registry.clusters import LOGICAL_CLUSTERS, LogicalClusters
from shoal.apiserver.request.info import ROOT
from shoal.kinds.limits import WITHIN_LIMITS, ClusterLimits, share_used
from shoal.objects.conditions import get_condition
from shoal.telemetry.metrics import escape_label_value

CONDITION_MARKER = f'"{WITHIN_LIMITS}"'.encode()
MAX_CLUSTERS = 100
"""Clusters in the metrics of the whole server: those nearest to their limits, and root."""
TEXTS = {
    "objects": "Stored objects of a logical cluster, without Events.",
    "bytes": "Stored bytes of the objects of a logical cluster, without Events.",
    "watches": "Open watches of a logical cluster.",
    "connections": "Open connections to a logical cluster.",
    "history_bytes": "Bytes of past states and events kept for watches of a logical cluster.",
}
"""By metric, in the order of the fields of `ClusterLimits`."""


class LimitUsage:
    def __init__(self, cache: WatchCache, clusters: LogicalClusters, limits: ServerLimits) -> None:
        self._cache, self._clusters, self._limits = cache, clusters, limits

    def usage(self, cluster: str) -> ClusterLimits:
        """What a cluster uses, in the fields of its limits."""
        stored = self._cache.usage.objects(cluster)
        return ClusterLimits(
            stored.objects if stored is not None else 0,
            stored.bytes if stored is not None else 0,
            self._limits.watches.count(cluster),
            self._limits.connections.count(cluster),
            self._cache.history.size_of(cluster),
        )

    def shares(self) -> Iterable[tuple[float, str]]:
        """The largest share of a limit that each cluster uses."""
        for cluster in self.clusters():
            used = [value or 0 for value in self.usage(cluster)]
            yield share_used(used, self._clusters.limits(cluster)), cluster

    def limits(self, cluster: str) -> ClusterLimits:
        return self._clusters.limits(cluster)

    def refusal_count(self, cluster: str) -> int:
        return sum(self._limits.refusals.counts(cluster).values())

    def reported_reasons(self) -> dict[str, str]:
        """Reasons of the condition WithinLimits as they are stored, of clusters that have it."""
        entries = self._cache.resource_cache(*LOGICAL_CLUSTERS).table(ROOT).entries.values()
        conditions = {
            entry.name: get_condition(entry.object(), WITHIN_LIMITS)
            for entry in entries
            if CONDITION_MARKER in entry.data
        }
        return {name: str(found["reason"]) for name, found in conditions.items() if found is not None}

    def clusters(self) -> set[str]:
        """Clusters that use something that is limited."""
        limits = self._limits
        return {
            *self._cache.usage.clusters(),
            *limits.watches.clusters(),
            *limits.connections.clusters(),
            *limits.refusals.clusters(),
        }

    def render(self, cluster: str | None = None) -> str:
        if cluster is not None:
            names = [cluster]
        else:
            names = sorted({name for _, name in nlargest(MAX_CLUSTERS, self.shares())} | {"root"})
        rows = [(name, self.usage(name), self._clusters.limits(name)) for name in names]
        lines: list[str] = []
        for place, (field, text) in enumerate(TEXTS.items()):
            metric = f"shoal_logical_cluster_{field}"
            lines += [f"# HELP {metric} {text}", f"# TYPE {metric} gauge"]
            lines += [f"{metric}{_labels(name)} {used[place]}" for name, used, _ in rows]
            lines += [f"# HELP {metric}_limit The limit of {metric}.", f"# TYPE {metric}_limit gauge"]
            lines += [f"{metric}_limit{_labels(name)} {limit[place]}" for name, _, limit in rows if limit[place]]
        metric = "shoal_logical_cluster_refusals_total"
        lines += [f"# HELP {metric} Requests refused by a limit of a logical cluster.", f"# TYPE {metric} counter"]
        for name in names:
            for field, count in sorted(self._limits.refusals.counts(name).items()):
                lines.append(f"{metric}{_labels(name, field)} {count}")
        return "\n".join(lines) + "\n"


def _labels(cluster: str, limit: str = "") -> str:
    labels = f'cluster="{escape_label_value(cluster)}"'
    return f'{{{labels},limit="{limit}"}}' if limit else f"{{{labels}}}"
