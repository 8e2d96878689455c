"""Drift of Machines."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.provision.clusterapi.nodegroups import deployment_drift, template_drift
from shoal.provision.clusterapi.standalone_machine import template_hash
from tests.provision.clusterapi.test_offerings import deployment
from tests.provision.clusterapi.yard import bare_class, bare_template
from tests.provision.hosted import node_class

Object = dict[str, Any]

HASH, REVISION = "machine-template-hash", "machinedeployment.clusters.x-k8s.io/revision"


def machine(hashed: str = "", **conditions: tuple[str, str]) -> Object:
    said = [{"type": kind, "status": status, "reason": reason} for kind, (status, reason) in conditions.items()]
    labels = {HASH: hashed} if hashed else {}
    return {"metadata": {"name": "m", "labels": labels}, "status": {"conditions": said}}


def machine_set(hashed: str, revision: str) -> Object:
    metadata = {"name": hashed, "labels": {HASH: hashed}, "annotations": {REVISION: revision}}
    return {"metadata": metadata}


SETS = [machine_set("new", "10"), machine_set("old", "9")]


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (machine(), ""),
        (machine("new"), ""),
        (machine("old"), "MachineNotUpToDate"),
        (machine("old", UpToDate=("True", "UpToDate")), ""),
        (machine("new", UpToDate=("False", "NotUpToDate")), "MachineNotUpToDate"),
        (machine("new", UpToDate=("False", "Updating")), ""),
        (machine("old", UpToDate=("Unknown", "InternalError")), "MachineNotUpToDate"),
    ],
)
def test_its_own_word_counts_before_the_hash_of_the_newest_set(found: Object, reason: str) -> None:
    assert deployment_drift(found, deployment(), SETS, node_class()) == reason


def test_without_any_set_nothing_is_known() -> None:
    assert deployment_drift(machine("old"), deployment(), [], node_class()) == ""


def test_its_deployment_is_gone_or_not_selected_any_more() -> None:
    assert deployment_drift(machine(), None, [], node_class()) == "MachineDeploymentGone"
    other = node_class(selector={"matchLabels": {"size": "large"}})
    assert deployment_drift(machine(), deployment(), SETS, other) == "MachineDeploymentNotSelected"
    assert deployment_drift(machine(), deployment(), SETS, None) == "", "without its class nobody can say"


def test_what_it_was_made_from_has_changed() -> None:
    (entry,) = bare_class()["spec"]["machineTemplates"]
    template = bare_template()
    before = template_hash(entry, template, None)
    assert template_drift(before, template_hash(entry, template, None)) == ""
    assert template_drift(before, None) == "MachineTemplateGone"
    for other in (
        template_hash({**entry, "version": "v1.36.0"}, template, None),
        template_hash({**entry, "failureDomain": "z"}, template, None),
        template_hash({**entry, "infrastructureRef": {**entry["infrastructureRef"], "name": "x"}}, template, None),
        template_hash(entry, bare_template(startupDelay="1s"), None),
        template_hash(entry, template, bare_template()),
    ):
        assert template_drift(before, other) == "MachineTemplateChanged"
    said = {**entry, "price": "9", "labels": {"a": "b"}, "limit": 3, "capacity": {"cpu": "1"}}
    assert template_drift(before, template_hash(said, template, None)) == "", (
        "what is only said of it changes no machine"
    )
