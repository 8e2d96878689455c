"""The steps of a creation: read from the lines of kind, as conditions, and what is left of them afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.assemble.commands.top import FleetPoller, FleetSummary, KindClusterRow, kind_cluster_row
from shoal.capi.providers.kind.creation_steps import STEPS, expected_steps, step_of_line
from shoal.cli.top import summary_lines
from tests.capi.kind.kind_environment import Place, condition, kind_cluster
from tests.capi.kind.test_decide import an_object

Object = dict[str, Any]

pytestmark = pytest.mark.anyio

ONE_NODE = [
    "NodeImagePresent",
    "NodesPrepared",
    "ConfigurationWritten",
    "ControlPlaneStarted",
    "CNIInstalled",
    "StorageClassInstalled",
]


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("• Ensuring node image (kindest/node:v1.36.4) 🖼  ...", ("NodeImagePresent", "InProgress")),
        ("✓ Ensuring node image (kindest/node:v1.36.4) 🖼", ("NodeImagePresent", "Done")),
        ("✗ Preparing nodes 📦 📦 ", ("NodesPrepared", "Failed")),
        ("• Configuring the external load balancer ⚖️  ...", ("LoadBalancerConfigured", "InProgress")),
        ("✓ Joining more control-plane nodes 🎮", ("ControlPlanesJoined", "Done")),
        ("• Waiting ≤ 1m0s for control-plane = Ready ⏳  ...", None),
        ('Creating cluster "a" ...', None),
        ("", None),
    ],
)
def test_lines_of_kind(line: str, step: tuple[str, str] | None) -> None:
    assert step_of_line(line) == step


@pytest.mark.parametrize(
    ("spec", "steps"),
    [
        ({}, ONE_NODE),
        ({"nodes": [{"role": "control-plane"}, {"role": "worker", "count": 2}]}, [*ONE_NODE, "WorkersJoined"]),
        (
            {"nodes": [{"role": "control-plane", "count": 3}]},
            [*ONE_NODE[:2], "LoadBalancerConfigured", *ONE_NODE[2:], "ControlPlanesJoined"],
        ),
        ({"networking": {"disableDefaultCNI": True}}, [step for step in ONE_NODE if step != "CNIInstalled"]),
        ({"config": {"networking": {"disableDefaultCNI": True}, "nodes": [{}]}}, [*ONE_NODE[:4], ONE_NODE[5]]),
        ({"config": {"networking": "nonsense", "nodes": "nonsense"}}, ONE_NODE),
    ],
)
def test_the_steps_of_a_spec(spec: Object, steps: list[str]) -> None:
    assert [step.condition for step in expected_steps(an_object(**spec))] == steps


def states(obj: Object) -> dict[str, str]:
    return {step.condition: condition(obj, step.condition).get("reason", "") for step in STEPS}


async def test_progress_is_in_the_conditions(place: Place) -> None:
    place.standin.write("hold-step-4")
    await place.create(kind_cluster("a", nodes=[{"role": "control-plane"}, {"role": "worker"}]))
    obj = await place.says("a", "InProgress", "ControlPlaneStarted")
    assert condition(obj, "ControlPlaneStarted")["status"] == "False"
    assert condition(obj, "ControlPlaneStarted")["message"] == "Starting control-plane"
    assert condition(obj, "NodesPrepared")["status"] == "True"
    assert condition(obj, "WorkersJoined")["status"] == "Unknown"
    assert [reason for reason in states(obj).values() if reason] == [*["Done"] * 3, "InProgress", *["Pending"] * 3]
    place.standin.unlink("hold-step-4")
    obj = await place.ready("a")
    assert {reason for reason in states(obj).values() if reason} == {"Done"}
    assert condition(obj, "ControlPlanesJoined") == {}


async def test_the_step_that_failed_is_named_and_the_next_attempt_begins_anew(place: Place) -> None:
    place.standin.write("fail-create", "no such image")
    await place.create(kind_cluster("a"))
    await place.says("a", "Failed", "NodesPrepared")
    # Steps are shown as soon as kind names them, Ready when kind has ended.
    obj = await place.says("a", "CreationFailed")
    assert states(obj)["NodeImagePresent"] == "Done"
    place.standin.unlink("fail-create")
    place.standin.write("hold-step-1")
    await place.step(10)
    obj = await place.says("a", "InProgress", "NodeImagePresent")
    assert states(obj)["NodesPrepared"] == "Pending"
    place.standin.unlink("hold-step-1")
    await place.ready("a")


async def test_steps_of_an_interrupted_creation_are_not_under_way(still: Place) -> None:
    still.standin.write("hold-step-4")
    still.standin.write("hold-delete")
    still.start()
    await still.create(kind_cluster("a"))
    await still.says("a", "InProgress", "ControlPlaneStarted")
    await still.stop()
    still.start()
    obj = await still.says("a", "Interrupted")
    assert {reason for reason in states(obj).values() if reason} == {"Pending"}
    for file in ("hold-step-4", "hold-delete"):
        still.standin.unlink(file)
    await still.ready("a")


async def test_a_replacement_without_workers_has_no_step_of_them(place: Place) -> None:
    nodes = [{"role": "control-plane"}, {"role": "worker"}]
    await place.create(kind_cluster("a", nodes=nodes, replacePolicy="Replace"))
    assert condition(await place.ready("a"), "WorkersJoined")["status"] == "True"
    await place.merge("a", {"spec": {"nodes": nodes[:1]}})
    await place.until(lambda: len(place.standin.calls("create")) == 2)
    assert condition(await place.ready("a"), "WorkersJoined") == {}


async def test_top_shows_what_each_is_doing(place: Place) -> None:
    place.standin.write("hold-step-4")
    await place.create(kind_cluster("a", "b"))
    obj = await place.says("a", "InProgress", "ControlPlaneStarted")
    assert kind_cluster_row(obj) == KindClusterRow("default/a", "b", "Provisioning", "3/6 Starting control-plane")
    poller = FleetPoller(place.client)
    lines = summary_lines(await poller.poll())
    await poller.close()
    assert [line.split() for line in lines[-2:]] == [
        ["KINDCLUSTER", "NAME", "IN", "KIND", "PHASE", "ACTIVITY"],
        ["default/a", "b", "Provisioning", "3/6", "Starting", "control-plane"],
    ]
    place.standin.unlink("hold-step-4")
    assert kind_cluster_row(await place.ready("a")).activity == ""
    await place.merge("a", {"spec": {"images": ["nowhere:1"]}})
    obj = await place.says("a", "ImagesMissing", "ImagesLoaded")
    assert kind_cluster_row(obj) == KindClusterRow("default/a", "b", "Provisioned", "ImagesMissing")
    assert kind_cluster_row({**obj, "status": {}}) == KindClusterRow("default/a", "b", "Pending", "")
    await place.create(kind_cluster("bad", nodes=[{"role": "worker"}]))
    assert kind_cluster_row(await place.says("bad", "InvalidSpec")).activity == "InvalidSpec"
    assert "KINDCLUSTER" not in "".join(summary_lines(FleetSummary()))
