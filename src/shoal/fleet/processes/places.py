"""Liveness of hubs that run worker processes: each renews a Lease `supervisor-<id>` beside the Workers.

Judged by the reader's own clock, as for Workers: what counts is when a Lease was seen to change. A hub that has just
started gives every other hub the full time.
"""

from __future__ import annotations

import logging
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client
from shoal.client.transport import Unreachable
from shoal.clock import Clock, rfc3339_micro
from shoal.fleet.resources import LEASES
from shoal.kinds import fleet
from shoal.objects.errors import NotFound, StatusError

log = logging.getLogger("shoal.fleet")

Object = dict[str, Any]

RETRY_SECONDS = 1.0


class Places:
    def __init__(self, client: Client, clock: Clock, own: str) -> None:
        """`own_id` is the id of this hub's processes; empty if it runs none."""
        self._client, self._clock, self._own = client, clock, own
        self._began = clock.monotonic()
        self._heard: dict[str, tuple[str, float]] = {}
        """By id: the Lease's renewTime, and when it was seen."""
        self.leases = Reflector(client, LEASES, clock, self._changed, labels=fleet.SUPERVISOR)

    def _changed(self, key: Key, lease: Object | None) -> None:
        if lease is None:
            return  # A deleted Lease only means silence.
        id_ = lease["metadata"]["labels"][fleet.SUPERVISOR]
        renewed = str((lease.get("spec") or {}).get("renewTime") or "")
        if self._heard.get(id_, ("", 0.0))[0] != renewed:
            self._heard[id_] = renewed, self._clock.monotonic()

    def left(self, id_: str) -> float:
        """Seconds for which a supervisor still counts as alive without a renewal; 0: it is silent."""
        if id_ == self._own:
            return fleet.SILENCE_SECONDS
        _, heard = self._heard.get(id_, ("", self._began))
        return max(0.0, heard + fleet.SILENCE_SECONDS - self._clock.monotonic())

    async def beat(self) -> None:
        """Renews this hub's Lease forever."""
        while self._own:
            pause = fleet.HEARTBEAT_SECONDS
            try:
                await self._renew()
            except (StatusError, Unreachable) as error:
                log.info("supervisor %s: %s", self._own, error)
                pause = RETRY_SECONDS
            await self._clock.sleep(pause)

    async def _renew(self) -> None:
        name, spec = f"supervisor-{self._own}", {"renewTime": rfc3339_micro(self._clock.now())}
        try:
            await self._client.merge(LEASES, name, {"spec": spec}, fleet.NAMESPACE)
        except NotFound:
            metadata = {"name": name, "labels": {fleet.SUPERVISOR: self._own}}
            spec |= {"holderIdentity": self._own}
            made = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
            await self._client.create(LEASES, made, fleet.NAMESPACE)
