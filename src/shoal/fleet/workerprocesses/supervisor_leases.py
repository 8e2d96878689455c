"""Liveness of hubs that run worker processes: each renews a Lease `supervisor-<id>` beside the Workers.

Judged by the reader's own clock, as for Workers: what counts is when a Lease was seen to change. A hub that has just
started gives every other hub the full time.
"""

from __future__ import annotations

import logging
from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client
from shoal.client.transport import Unreachable
from shoal.clock import Clock, rfc3339_micro
from shoal.fleet.resources import LEASES
from shoal.kinds.fleet import infrav1
from shoal.objects.errors import NotFound, StatusError
from shoal.runtime.informer import Informer

log = logging.getLogger("shoal.fleet")

Object = dict[str, Any]

RETRY_SECONDS = 1.0


class SupervisorLeases:
    def __init__(self, client: Client, clock: Clock, own_id: str) -> None:
        """`own_id` is the id of this hub's processes; empty if it runs none."""
        self._client, self._clock, self._own_id = client, clock, own_id
        self._started_at = clock.monotonic()
        self._renewals: dict[str, tuple[str, float]] = {}
        """By id: the Lease's renewTime, and when it was seen."""
        self.leases = Informer(client, LEASES, clock, labels=infrav1.SUPERVISOR_ANNOTATION)
        self.leases.add_event_handler(self._on_lease)

    def _on_lease(self, key: Key, old: Object | None, new: Object | None) -> None:
        if new is None:
            return  # A deleted Lease only means silence.
        supervisor_id = new["metadata"]["labels"][infrav1.SUPERVISOR_ANNOTATION]
        renew_time = str((new.get("spec") or {}).get("renewTime") or "")
        if self._renewals.get(supervisor_id, ("", 0.0))[0] != renew_time:
            self._renewals[supervisor_id] = renew_time, self._clock.monotonic()

    def remaining(self, supervisor_id: str) -> float:
        """Seconds for which a supervisor still counts as alive without a renewal; 0: it is silent."""
        if supervisor_id == self._own_id:
            return infrav1.LEASE_GRACE_SECONDS
        _, heard_at = self._renewals.get(supervisor_id, ("", self._started_at))
        return max(0.0, heard_at + infrav1.LEASE_GRACE_SECONDS - self._clock.monotonic())

    async def run_heartbeat(self) -> None:
        """Renews this hub's Lease forever."""
        while self._own_id:
            pause = infrav1.HEARTBEAT_SECONDS
            try:
                await self._renew()
            except (StatusError, Unreachable) as error:
                log.info("supervisor %s: %s", self._own_id, error)
                pause = RETRY_SECONDS
            await self._clock.sleep(pause)

    async def _renew(self) -> None:
        name, spec = f"supervisor-{self._own_id}", {"renewTime": rfc3339_micro(self._clock.now())}
        try:
            await self._client.merge_patch(LEASES, name, {"spec": spec}, infrav1.NAMESPACE)
        except NotFound:
            metadata = {"name": name, "labels": {infrav1.SUPERVISOR_ANNOTATION: self._own_id}}
            spec |= {"holderIdentity": self._own_id}
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
            await self._client.create(LEASES, lease, infrav1.NAMESPACE)
