"""Finds out whether kind and a container engine answer on this machine, again and again."""

from __future__ import annotations

import logging
from dataclasses import replace

from shoal.clock import Clock
from shoal.fleet.worker.settings import KindSupport
from shoal.kinds.fleet.kindhosting import AVAILABLE, KindOffer, offered_versions

log = logging.getLogger("shoal.fleet")

PROBE_SECONDS = 30.0
STARTING = "NotKnownYet"


class KindOfferProbe:
    name = "kind-offer"

    def __init__(self, support: KindSupport, clock: Clock) -> None:
        self._support, self._clock = support, clock
        versions = offered_versions(support.images)
        self.offer = KindOffer(STARTING, "kind has not answered yet", support.cpu, support.memory, versions)

    async def run(self) -> None:
        while True:
            await self.probe()
            await self._clock.sleep(PROBE_SECONDS)

    async def probe(self) -> None:
        reason, message = await self._support.probe()
        offer = replace(self.offer, reason=reason or AVAILABLE, message=message)
        if offer.reason != self.offer.reason:
            log.info("kind clusters: %s", f"{reason}: {message}" if reason else "kind and a container engine answer")
        self.offer = offer
