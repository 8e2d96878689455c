"""Tests of Events of simulated containers, in upstream's words, recorded only on request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.clock import rfc3339
from shoal.controlplane.kubelet.container_runtime import predict_outcome
from shoal.controlplane.kubelet.controller import kubelet_events
from shoal.controlplane.kubelet.decide import KubeletDecision, decide_pod
from shoal.controlplane.kubelet.stages import default_stages
from shoal.runtime.event_recorder import EVENTS
from tests.controlplane.kubelet.samples import NOW, pod, ready_node
from tests.controlplane.kubelet.test_kubelet import create, node, node_is, pod_is
from tests.controlplane.kubelet.test_kubelet import pod as bound_pod
from tests.controlplane.world import world

Object = dict[str, Any]


def step(obj: Object, now: float = NOW) -> tuple[Object, list[tuple[str, str, str]]]:
    ending, stages = predict_outcome(obj), default_stages()
    decision = decide_pod(
        obj, ready_node(), stages, outcome=ending, address="10.0.0.1", now=now, now_rfc3339=rfc3339(now)
    )
    told = [(each.field, each.reason, each.message) for each in kubelet_events(obj, decision)]
    return {**obj, "status": decision.status or obj["status"]}, told


def test_a_container_is_pulled_created_and_started_once() -> None:
    present = 'Container image "nginx:1" already present on machine and can be accessed by the pod'
    mine, told = step(pod(initContainers=[{"name": "i", "image": "nginx:1"}]))
    assert [each for each in told if each[0] == "spec.containers{c}"] == [
        ("spec.containers{c}", "Pulled", present),
        ("spec.containers{c}", "Created", "Container created"),
        ("spec.containers{c}", "Started", "Container started"),
    ]
    assert [reason for field, reason, _ in told if field == "spec.initContainers{i}"] == [
        "Pulled",
        "Created",
        "Started",
    ]
    assert step(mine, NOW + 5)[1] == []


def test_a_deletion_stops_what_runs() -> None:
    mine, _ = step(pod())
    mine["metadata"] |= {"deletionTimestamp": rfc3339(NOW + 30), "deletionGracePeriodSeconds": 30}
    assert step(mine, NOW + 1)[1] == [("spec.containers{c}", "Killing", "Stopping container c")]


def test_back_off_is_told_once_each_time() -> None:
    mine, _ = step(pod("crash"))
    mine, told = step(mine, NOW + 1)
    who = "p_default(00000000-0000-4000-8000-000000000002)"
    assert told == [("spec.containers{c}", "BackOff", f"Back-off restarting failed container c in pod {who}")]
    mine, told = step(mine, NOW + 11)
    assert [reason for _, reason, _ in told] == ["Pulled", "Created", "Started"]
    stuck, told = step(pod("image-pull"))
    assert [(reason, message) for _, reason, message in told] == [
        ("BackOff", 'Back-off pulling image "nginx:1"'),
        ("Failed", "Error: ImagePullBackOff"),
    ]
    assert step(stuck, NOW + 60)[1] == []
    assert list(kubelet_events(stuck, KubeletDecision())) == []


@pytest.mark.anyio
async def test_only_nodes_that_are_asked_to_write_events(tmp_path: Path) -> None:
    async with world(tmp_path) as given:
        client = await given.cluster("a")
        await create(client, node("quiet"), node("loud", {"shoal.dev/events": "true"}))
        await given.eventually(node_is(client, name="loud"))
        await given.eventually(node_is(client, name="quiet"))
        await create(client, bound_pod("a", on="loud"), bound_pod("b", on="quiet"))
        await given.eventually(pod_is(client, "Running", "b"))

        async def told() -> bool:
            return len((await client.list_all(EVENTS, "default"))[0]) == 3

        await given.eventually(told)
        found, _ = await client.list_all(EVENTS, "default")
        assert {each["involvedObject"]["name"] for each in found} == {"a"}
        one = next(each for each in found if each["reason"] == "Started")
        assert one["source"] == {"component": "kubelet", "host": "loud"}
        assert (one["reportingComponent"], one["reportingInstance"]) == ("kubelet", "loud")
        assert one["involvedObject"]["fieldPath"] == "spec.containers{c}"
