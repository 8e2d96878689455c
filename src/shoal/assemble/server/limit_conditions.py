"""Reports logical clusters that come near their limits as the condition WithinLimits of their LogicalCluster.

The condition is written when a cluster passes four fifths of a limit, when something is refused, and when it is below
again: once for each, however often it happens.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Protocol

from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import Unreachable
from shoal.clock import Clock, rfc3339
from shoal.kinds.fleet.logicalcluster import GROUP, PLURAL, VERSION
from shoal.kinds.limits import FAR_FROM_LIMITS, LIMITS_REACHED, NEAR_LIMITS, NEAR_SHARE, WITHIN_LIMITS, ClusterLimits
from shoal.objects.conditions import set_condition
from shoal.objects.errors import NotFound, StatusError

log = logging.getLogger("shoal.assemble")

LOGICAL_CLUSTERS = GroupVersionResource(GROUP, VERSION, PLURAL, namespaced=False)
INTERVAL_SECONDS = 10.0
BATCH_SIZE = 200
"""Clusters that are looked at before the event loop gets a turn."""
REPORTED_FIELDS = ("objects", "bytes", "watches", "connections")
"""A history at its limit is no reason to act: it is only shorter."""


class UsageSource(Protocol):
    """What clusters use, as the server that counts it knows."""

    def clusters(self) -> Iterable[str]: ...

    def usage(self, cluster: str) -> ClusterLimits: ...

    def limits(self, cluster: str) -> ClusterLimits: ...

    def refusal_count(self, cluster: str) -> int: ...

    def reported_reasons(self) -> dict[str, str]:
        """Reasons of the condition as they are stored, of clusters that have it."""


class LimitConditions:
    name = "cluster-limits"

    def __init__(self, client: Client, clock: Clock, source: UsageSource) -> None:
        """`client` is for the root of the server."""
        self._client, self._clock, self._source = client, clock, source
        self._reasons: dict[str, str] = {}
        """Of clusters that are not far from their limits."""
        self._refusals: dict[str, int] = {}

    async def run(self) -> None:
        # What an earlier process has reported is corrected at the start.
        self._reasons = {
            name: reason for name, reason in self._source.reported_reasons().items() if reason != FAR_FROM_LIMITS
        }
        while True:
            await self.report()
            await self._clock.sleep(INTERVAL_SECONDS)

    async def report(self) -> None:
        clusters = {*self._source.clusters(), *self._reasons}
        for number, cluster in enumerate(clusters, 1):
            reason, message = self._reason(cluster)
            if reason != self._reasons.get(cluster, FAR_FROM_LIMITS):
                await self._write(cluster, reason, message)
            if not number % BATCH_SIZE:
                await asyncio.sleep(0)
        self._refusals = {name: count for name, count in self._refusals.items() if name in clusters}

    def _reason(self, cluster: str) -> tuple[str, str]:
        used, limits = self._source.usage(cluster)._asdict(), self._source.limits(cluster)._asdict()
        near = [
            field
            for field in REPORTED_FIELDS
            if limits[field] is not None and used[field] >= limits[field] * NEAR_SHARE
        ]
        refusals = self._source.refusal_count(cluster)
        is_refused = refusals > self._refusals.get(cluster, 0)
        self._refusals[cluster] = refusals
        if not near:
            return FAR_FROM_LIMITS, "the cluster uses less than its limits"
        is_reached = is_refused or any(used[field] >= limits[field] for field in near)
        is_reached = is_reached or self._reasons.get(cluster) == LIMITS_REACHED
        numbers = ", ".join(f"{field} {used[field]} of {limits[field]}" for field in near)
        return LIMITS_REACHED if is_reached else NEAR_LIMITS, f"{numbers}; spec.limits raises them"

    async def _write(self, cluster: str, reason: str, message: str) -> None:
        try:
            obj = await self._client.get(LOGICAL_CLUSTERS, cluster)
            status = "False" if reason == LIMITS_REACHED else "True"
            now = rfc3339(self._clock.now())
            updated = set_condition(obj, WITHIN_LIMITS, status, reason=reason, message=message, now=now)
            if updated is not obj:
                await self._client.update(LOGICAL_CLUSTERS, updated, "status")
        except NotFound:
            self._reasons.pop(cluster, None)
            return
        except (StatusError, Unreachable) as error:
            log.info("cannot write the condition %s of %s: %s", WITHIN_LIMITS, cluster, error)
            return
        if reason == FAR_FROM_LIMITS:
            self._reasons.pop(cluster, None)
        else:
            self._reasons[cluster] = reason
