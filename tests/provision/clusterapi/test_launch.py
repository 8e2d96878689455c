"""The launch of a NodeClaim: its next step in every state."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.kinds.karpenter.karpenter import (
    MACHINE_ANNOTATION,
    MACHINE_DEPLOYMENT_ANNOTATION,
    MACHINE_TEMPLATE_ANNOTATION,
)
from shoal.provision.clusterapi.decide import (
    ChooseOffering,
    CreateMachine,
    FailLaunch,
    FinishLaunch,
    LaunchSnapshot,
    LaunchStep,
    WaitForMachine,
    decide_launch,
)

Object = dict[str, Any]

OF_DEPLOYMENT = {MACHINE_DEPLOYMENT_ANNOTATION: "default/east"}
OF_TEMPLATE = {MACHINE_TEMPLATE_ANNOTATION: "default/class/small"}
HAS_MACHINE = {**OF_DEPLOYMENT, MACHINE_ANNOTATION: "default/m"}


def step(
    annotations: dict[str, str], machine: Object | None = None, *, rejection: str = "", has_node_group: bool = True
) -> LaunchStep:
    claim = {"metadata": {"name": "one", "uid": "u", "annotations": annotations}}
    return decide_launch(LaunchSnapshot(claim, machine, rejection, has_node_group))


def test_an_offering_is_chosen_first() -> None:
    assert step({}, has_node_group=False) == ChooseOffering()


def test_a_machine_deployment_is_waited_for_and_may_refuse() -> None:
    assert step(OF_DEPLOYMENT) == WaitForMachine("waiting for a Machine of MachineDeployment default/east")
    assert step(OF_DEPLOYMENT, rejection="full") == FailLaunch("full")
    gone = FailLaunch("MachineDeployment default/east is no longer selected")
    assert step(OF_DEPLOYMENT, has_node_group=False) == gone


def test_the_machine_of_a_template_is_created() -> None:
    assert step(OF_TEMPLATE, has_node_group=False) == CreateMachine("default/class/small")


@pytest.mark.parametrize("spec", [None, {}, {"providerID": ""}])
def test_a_machine_is_done_when_it_has_a_provider_id(spec: Object | None) -> None:
    machine: Object = {"metadata": {"name": "m"}, "spec": spec}
    assert step(HAS_MACHINE, machine) == WaitForMachine("waiting for the providerID of Machine default/m")
    done: Object = {"metadata": {"name": "m"}, "spec": {"providerID": "x"}}
    assert step(HAS_MACHINE, done, rejection="full") == FinishLaunch(done), "a Machine it has is not taken away"


@pytest.mark.parametrize("machine", [None, {"metadata": {"deletionTimestamp": "x"}, "spec": {"providerID": "x"}}])
def test_a_machine_that_is_gone_ends_the_launch(machine: Object | None) -> None:
    assert step(HAS_MACHINE, machine) == FailLaunch("Machine default/m was deleted")
