"""Tests of the stage data: complete, and rejected when invalid."""

from __future__ import annotations

import pytest

from shoal.controlplane.kubelet.stages import default_stages, read_stages

NODE = "node: {capacity: {}, conditions: [], nodeInfo: {}}\n"


def test_the_stages_that_come_with_shoal_are_read() -> None:
    stages = default_stages()
    names = [stage.name for stage in stages.pods]
    assert len(set(names)) == len(names)
    assert stages.simulate_values("pods") == {
        "slow-stop", "image-pull", "slow-start", "fail", "crash", "complete", "unready",
    }  # fmt: skip
    assert stages.simulate_values("nodes") == {"not-ready", "runtime-down", "memory-pressure", "disk-pressure"}
    assert {each["type"] for each in stages.conditions} >= {kind for stage in stages.nodes for kind in stage.next}


@pytest.mark.parametrize(
    ("stage", "said"),
    [
        ("{name: a, when: {}}", "stage a: unknown when: must be one of name, match, delay, next"),
        ("{name: a, match: {colour: [red]}}", "match of stage a: unknown colour: must be one of phase"),
        ("{name: a, delay: {since: tomorrow}}", "delay of stage a: unknown tomorrow: must be one of created"),
        ("{name: a, next: {phase: Walking, containers: running}}", "phase: unknown Walking: must be one of Pending"),
        (
            "{name: a, next: {phase: Running, containers: gone}}",
            "state of containers: unknown gone: must be one of waiting",
        ),
    ],
)
def test_mistakes_are_refused(stage: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_stages(f"{NODE}nodes: []\npods: [{stage}]\n")
