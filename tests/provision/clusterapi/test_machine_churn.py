"""NodeClaims are created and deleted repeatedly while everything that can fail does. Nothing is left over.

Machines start slowly or vanish, writes conflict, the provider crashes after any number of writes (the last one done,
lost, or received long after), and there is an unclaimed Machine.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from shoal.kinds.karpenter.karpenter import MACHINE_ANNOTATION, NODE_CLAIM_UID_ANNOTATION, annotation_of, is_deleting
from shoal.objects.errors import NotFound
from shoal.provision.clusterapi.decide import UNCLAIMED_SECONDS
from shoal.provision.clusterapi.machine_state import MACHINES
from shoal.provision.state import NODE_CLAIMS
from tests.controlplane.world import World
from tests.provision.clusterapi.yard import INFRASTRUCTURE, Yard, yard

Object = dict[str, Any]

MOST_WRITES = 24
BAD = "bad"


async def _alone(here: Yard) -> None:
    """Any time: no two NodeClaims have the same Machine, and no two Machines the same NodeClaim."""
    claims, machines = await here.claims(), await here.machines()
    named = Counter(
        annotation_of(each, MACHINE_ANNOTATION) for each in claims if annotation_of(each, MACHINE_ANNOTATION)
    )
    owners = Counter(
        annotation_of(each, NODE_CLAIM_UID_ANNOTATION)
        for each in machines
        if annotation_of(each, NODE_CLAIM_UID_ANNOTATION)
    )
    assert max(named.values(), default=1) == 1, named
    assert max(owners.values(), default=1) == 1, owners


async def _cycle(here: Yard, number: int) -> None:
    dice, names = here.dice, []
    await here.restart(writes=number % MOST_WRITES, conflicts=dice.choice([0.0, 0.2]))
    here.slowness = dice.choice([0.0, 0.5, 0.9])
    for position in range(dice.randint(1, 3)):
        names.append(f"c{number}-{position}")
        if dice.random() < 0.3:
            await here.claim(names[-1], of="bare")
        else:
            await here.claim(names[-1], *dice.choice([(), ("small",), ("medium",)]))
    for _ in range(dice.randint(0, 20)):
        await here.turn()
        if dice.random() < 0.05 and (machines := [each for each in await here.machines() if not _is_bad(each)]):
            await here.vanish(dice.choice(machines))
    early = dice.random() < 0.3
    if not early:
        await here.until(lambda: _have_machines(here), "all that are left have Machines")
    await _alone(here)
    await here.restart(writes=dice.randrange(MOST_WRITES), conflicts=dice.choice([0.0, 0.2]))
    for name in names:
        try:
            await here.hosted.delete(NODE_CLAIMS, name)
        except NotFound:
            continue  # it was given up, its Machine had vanished
    await here.until(lambda: _no_claims(here), "all NodeClaims go")
    here.world.clock.step(UNCLAIMED_SECONDS + 1)
    await here.until(lambda: _nothing_left(here), "no Machine is left over")


async def _have_machines(here: Yard) -> bool:
    claims, machines = await here.claims(), await here.machines()
    ready = {annotation_of(each, NODE_CLAIM_UID_ANNOTATION) for each in machines if each["spec"].get("providerID")}
    living = [each for each in claims if not is_deleting(each)]
    return len(living) == len(claims) and all(each["metadata"]["uid"] in ready for each in living)


async def _no_claims(here: Yard) -> bool:
    return not await here.claims()


async def _nothing_left(here: Yard) -> bool:
    machines = [each for each in await here.machines() if not _is_bad(each)]
    infrastructure, _ = await here.root.list_all(INFRASTRUCTURE, here.namespace)
    left = here.late or machines or infrastructure or any((await here.replicas()).values())
    return not left and not here.provider.list(here.cluster)


def _is_bad(machine: Object) -> bool:
    return bool(machine["metadata"]["name"] == BAD)


async def _cycles(given: World, count: int, seed: int) -> None:
    async with yard(given, "small", "medium", seed=seed) as here:
        reference = {"apiGroup": INFRASTRUCTURE.group, "kind": "Nothing", "name": "none"}
        bad = {
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "Machine",
            "metadata": {"name": BAD, "labels": {"cluster.x-k8s.io/deployment-name": "nobody"}},
            "spec": {"clusterName": "east", "infrastructureRef": reference},
        }
        await here.root.create(MACHINES, bad, here.namespace)
        for number in range(count):
            await _cycle(here, number)


@pytest.mark.anyio
async def test_thirty_cycles_with_faults_leave_nothing_behind(given: World) -> None:
    await _cycles(given, 30, seed=1)


@pytest.mark.soak
@pytest.mark.anyio
async def test_a_thousand_cycles_with_faults_leave_nothing_behind(given: World) -> None:
    await _cycles(given, 1000, seed=2)
