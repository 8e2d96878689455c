"""The table of machine sizes, and the data files that repeat its default."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import shoal.kinds
from shoal.controlplane.kubelet.stages import default_stages
from shoal.kinds.clusterapi.embedded import GROUP, common_node_labels
from shoal.kinds.clusterapi.machine_sizes import (
    CAPACITY_PREFIX,
    DEFAULT_SIZE,
    PROVISIONED_SIZES,
    capacity_annotations,
    machine_spec,
)

SCHEMAS = Path(shoal.kinds.__file__).parent / "crds" / "root"


def machine_schema(name: str, *path: str) -> dict[str, dict[str, object]]:
    found = yaml.safe_load((SCHEMAS / f"{name}.{GROUP}.yaml").read_text())["spec"]["versions"][0]["schema"]
    found = found["openAPIV3Schema"]["properties"]["spec"]
    for field in path:
        found = found["properties"][field]
    properties: dict[str, dict[str, object]] = found["properties"]
    return properties


@pytest.mark.parametrize(
    ("name", "path"), [("embeddedmachines", ()), ("embeddedmachinetemplates", ("template", "spec"))]
)
def test_a_machine_of_which_nothing_is_said_has_the_default_size(name: str, path: tuple[str, ...]) -> None:
    properties, wanted = machine_schema(name, *path), machine_spec(DEFAULT_SIZE, is_provisioned=False)
    for field in ("instanceType", "zone", "capacityType", "capacity"):
        assert properties[field]["default"] == wanted[field]


def test_a_simulated_node_of_which_nothing_is_said_has_the_default_size() -> None:
    assert dict(default_stages().capacity) == DEFAULT_SIZE.capacity


def test_what_is_announced_is_what_the_nodes_will_have() -> None:
    for size in (DEFAULT_SIZE, *PROVISIONED_SIZES):
        announced = capacity_annotations(size)
        labels = dict(each.split("=") for each in announced[f"{CAPACITY_PREFIX}labels"].split(","))
        assert labels.items() <= common_node_labels(machine_spec(size, is_provisioned=True)).items()
        assert (announced[f"{CAPACITY_PREFIX}cpu"], announced[f"{CAPACITY_PREFIX}maxPods"]) == (size.cpu, size.pods)
