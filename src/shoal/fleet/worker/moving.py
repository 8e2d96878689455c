"""The worker's controllers that migrate hosted clusters, and what they share.

fence: whether a cluster may be written now

ownership: the hub's confirmation that it is this worker's

replication: ships its log to the hub; freezes it for a planned migration

restore: from the log of another worker

handover: gives way to a worker that has it in a later epoch
"""

from __future__ import annotations

from dataclasses import dataclass

from shoal.fleet.bus.interface import Name
from shoal.fleet.worker.confirming.controller import Confirming
from shoal.fleet.worker.data import Data
from shoal.fleet.worker.fence.fence import Fence
from shoal.fleet.worker.parts import Parts
from shoal.fleet.worker.restoring.controller import Restoring
from shoal.fleet.worker.shipping.controller import Shipping
from shoal.fleet.worker.yielding.controller import Yielding
from shoal.runtime.loop import Loop


@dataclass(frozen=True, slots=True)
class Moves:
    """What a worker's server provides: access to its store, and the fence in front of it."""

    data: Data
    fence: Fence


def moving_loops(parts: Parts, data: Data, fence: Fence) -> list[Loop[Name]]:
    confirming, shipping = Confirming(parts, fence), Shipping(parts, data, fence)

    def live_again() -> None:
        confirming.again()
        shipping.again()

    fence.on_lapse = live_again
    return [confirming.loop, shipping.loop, Restoring(parts, data, fence).loop, Yielding(parts, data, fence).loop]
