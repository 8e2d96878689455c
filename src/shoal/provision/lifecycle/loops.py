"""Creates the controllers of the NodeClaim and node lifecycle."""

from __future__ import annotations

from shoal.clock import Clock
from shoal.provision.cloudprovider import CloudProvider
from shoal.provision.homes import Homes
from shoal.provision.lifecycle.controller import Lifecycle
from shoal.provision.lifecycle.garbage.controller import Garbage
from shoal.provision.lifecycle.health.controller import RegistrationHealth
from shoal.provision.lifecycle.pairs import Pairs
from shoal.provision.lifecycle.repair.controller import Repair
from shoal.provision.lifecycle.termination.controller import Termination
from shoal.provision.measured import Measured
from shoal.provision.view import View
from shoal.runtime.loop import Loop
from shoal.runtime.recorder import Recorder


def lifecycle_loops(
    homes: Homes, view: View, provider: CloudProvider, recorder: Recorder, clock: Clock, *, repair: bool = False
) -> list[Loop[tuple[str, str]] | Loop[str]]:
    def measured(controller: str) -> CloudProvider:
        return Measured(provider, controller, clock)

    pairs = Pairs(view)
    health = RegistrationHealth(homes, view, clock)
    loops: list[Loop[tuple[str, str]] | Loop[str]] = [
        health.loop,
        Lifecycle(homes, view, pairs, measured("nodeclaim.lifecycle"), health, recorder, clock).loop,
        Termination(homes, view, pairs, measured("node.termination"), recorder, clock).loop,
        Garbage(homes, view, pairs, measured("nodeclaim.garbagecollection"), clock).loop,
    ]
    if repair:
        loops.append(Repair(homes, view, pairs, provider, recorder, clock).loop)
    return loops
