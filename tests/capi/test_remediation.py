"""Machines with injected failures, and their remediation by a MachineHealthCheck, on a fake clock."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shoal.capi.informers import CLUSTERS, MACHINE_DEPLOYMENTS, MACHINE_HEALTH_CHECKS, MACHINES
from shoal.capi.providers.embedded.informers import EMBEDDED_MACHINES
from shoal.kinds.clusterapi.failure_injection import injected_failure
from tests.capi.management_cluster import HEALTH_CHECK, ONE_FILE, condition
from tests.capi.test_decide import NOW, made
from tests.capi.test_delays import KINDS, apply, in_phase, machines
from tests.controlplane.world import World, world

Object = dict[str, Any]

RETRY = 0.1
"""Seconds after which a write that met another's is tried again; the clock does not move by itself."""
KINDS["MachineHealthCheck"] = MACHINE_HEALTH_CHECKS


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[World]:
    async with world(tmp_path) as place:
        yield place


def failing(text: str, failure: str) -> str:
    return text.replace("instanceType: small", f"instanceType: small\n      failure: {failure}")


def said(machine: Object, type_: str) -> tuple[str, str]:
    found = condition(machine, type_) or {}
    return found.get("status", ""), found.get("reason", "")


async def fail(place: World, name: str, failure: Object | None) -> None:
    await place.client.merge_patch(EMBEDDED_MACHINES, name, {"spec": {"failure": failure}}, "default")


@pytest.mark.parametrize(
    ("kind", "phase", "reason", "message"),
    [
        ("Create", "Provisioning", "CreateFailed", "the machine could not be created (requested by spec.failure)"),
        ("Start", "Provisioned", "StartFailed", "the machine does not start (requested by spec.failure)"),
    ],
)
@pytest.mark.anyio
async def test_a_machine_that_does_not_come_says_why(
    place: World, kind: str, phase: str, reason: str, message: str
) -> None:
    await apply(place, failing(ONE_FILE, f"{{kind: {kind}}}"))

    async def failed() -> list[Object]:
        found = await in_phase(place, phase)
        return found if found and all(said(each, "InfrastructureReady") == ("False", reason) for each in found) else []

    found = await place.eventually(failed)
    assert (condition(found[0], "InfrastructureReady") or {})["message"] == message
    assert said(found[0], "Ready")[0] == "False"
    assert "nodeRef" not in found[0]["status"]
    for each in found:
        await fail(place, each["metadata"]["name"], None)
    await place.eventually(lambda: in_phase(place, "Running"))


@pytest.mark.anyio
async def test_a_machine_without_a_node_is_replaced(place: World) -> None:
    await apply(place, failing(ONE_FILE, "{kind: Start, percent: 100}") + HEALTH_CHECK.replace("50%", "100%"))
    before = {each["metadata"]["name"] for each in await place.eventually(lambda: in_phase(place, "Provisioned"))}
    place.clock.step(62)

    async def replaced() -> bool:
        place.clock.step(RETRY)
        found = await machines(place)
        return len(found) == 3 and not before & {each["metadata"]["name"] for each in found}

    await place.eventually(replaced)


async def crash(place: World, count: int) -> list[str]:
    """Once every Machine is found healthy, as many crash and are lost; their names."""
    await apply(place, ONE_FILE + HEALTH_CHECK)

    async def healthy() -> list[Object]:
        place.clock.step(RETRY)
        found = await in_phase(place, "Running")
        return found if found and all(said(each, "HealthCheckSucceeded")[0] == "True" for each in found) else []

    found = await place.eventually(healthy)
    names = [each["metadata"]["name"] for each in found[:count]]
    for name in names:
        await fail(place, name, {"kind": "Crash", "message": "power lost"})

    async def lost() -> bool:
        seen = [each for each in await machines(place) if each["metadata"]["name"] in names]
        place.clock.step(5)
        return all(said(each, "NodeReady")[0] == "Unknown" for each in seen)

    await place.eventually(lost)
    return names


@pytest.mark.anyio
async def test_a_crashed_machine_is_replaced(place: World) -> None:
    (name,) = await crash(place, 1)
    crashed = await place.client.get(MACHINES, name, "default")
    assert (condition(crashed, "InfrastructureReady") or {})["message"] == "power lost"

    async def replaced() -> bool:
        place.clock.step(5)
        found = await in_phase(place, "Running")
        return bool(found) and name not in {each["metadata"]["name"] for each in found}

    await place.eventually(replaced)

    async def calm() -> bool:
        place.clock.step(RETRY)
        check = await place.client.get(MACHINE_HEALTH_CHECKS, "east", "default")
        deployment = await place.client.get(MACHINE_DEPLOYMENTS, "east-default", "default")
        cluster = await place.client.get(CLUSTERS, "east", "default")
        counts = [check["status"].get(field) for field in ("expectedMachines", "currentHealthy", "remediationsAllowed")]
        calm = [said(obj, "Remediating") for obj in (deployment, cluster)]
        return counts == [3, 3, 1] and calm == [("False", "NotRemediating")] * 2

    await place.eventually(calm)


@pytest.mark.anyio
async def test_when_most_machines_are_lost_none_is_replaced(place: World) -> None:
    names = await crash(place, 2)

    async def held() -> bool:
        place.clock.step(5)
        check = await place.client.get(MACHINE_HEALTH_CHECKS, "east", "default")
        seen = [each for each in await machines(place) if each["metadata"]["name"] in names]
        return said(check, "RemediationAllowed") == ("False", "TooManyUnhealthy") and all(
            said(each, "HealthCheckSucceeded") == ("False", "UnhealthyNode") for each in seen
        )

    await place.eventually(held)
    found = await machines(place)
    assert set(names) < {each["metadata"]["name"] for each in found}
    assert all(condition(each, "OwnerRemediated") is None for each in found)

    async def told() -> bool:
        place.clock.step(RETRY)
        deployment = await place.client.get(MACHINE_DEPLOYMENTS, "east-default", "default")
        message = f"Machines {', '.join(sorted(names))} are not healthy"
        message += " (not to be remediated by MachineDeployment/MachineSet)"
        return bool((condition(deployment, "Remediating") or {}).get("message") == message)

    await place.eventually(told)


@pytest.mark.anyio
async def test_a_machine_marked_by_hand_is_replaced(place: World) -> None:
    await apply(place, ONE_FILE + HEALTH_CHECK)
    name = (await place.eventually(lambda: in_phase(place, "Running")))[0]["metadata"]["name"]
    mark = {"metadata": {"annotations": {"cluster.x-k8s.io/remediate-machine": ""}}}
    await place.client.merge_patch(MACHINES, name, mark, "default")

    async def replaced() -> bool:
        place.clock.step(RETRY)
        found = await in_phase(place, "Running")
        return bool(found) and name not in {each["metadata"]["name"] for each in found}

    await place.eventually(replaced)


def test_a_share_of_machines_fails_and_always_the_same() -> None:
    def failed(number: int) -> bool:
        spec = {"failure": {"kind": "Start", "percent": 30}}
        return injected_failure(made("EmbeddedMachine", "m", spec, uid=f"u{number}"), NOW) is not None

    hit = [failed(number) for number in range(1000)]
    assert 250 < sum(hit) < 350
    assert hit == [failed(number) for number in range(1000)]


def test_a_crash_comes_after_its_time() -> None:
    spec = {"failure": {"kind": "Crash", "after": "1m"}}
    early = injected_failure(made("EmbeddedMachine", "m", spec), NOW + 20)
    assert early is not None
    assert early.seconds_left == pytest.approx(40)
