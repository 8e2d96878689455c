"""The plain manifests of `deploy/`: a server takes every object, containers are started with flags that exist, and
what runs in a cluster is confined the same way everywhere. The values of the chart are held against their schema; what
it renders is in tests/real/test_chart.py, with Helm."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from click import NoSuchOption
from click.testing import CliRunner

from shoal import __version__
from shoal.cli.main import shoal
from tests.packages.manifests import (
    CHART,
    DEPLOY,
    OWN_IMAGE,
    Object,
    check_arguments,
    containers,
    dry_run,
    plain,
)
from tests.serving import Server, fresh_cluster

PLAIN = plain()


def test_there_is_something_for_every_part() -> None:
    assert set(PLAIN) == {"hub", "provisioner", "syncer", "worker"}


@pytest.mark.parametrize("folder", PLAIN)
def test_a_server_takes_every_object(folder: str, still_server: Server, tmp_path: Path) -> None:
    cluster = fresh_cluster(still_server, "cluster")
    try:
        dry_run(PLAIN[folder], cluster.kubeconfig(tmp_path / "kubeconfig"), tmp_path)
    finally:
        cluster.close()


def test_a_server_that_refuses_one_is_noticed(still_server: Server, tmp_path: Path) -> None:
    cluster = fresh_cluster(still_server, "cluster")
    wrong = copy.deepcopy(PLAIN["hub"])
    wrong[-1]["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    with pytest.raises(AssertionError, match="livenesProbe"):
        dry_run(wrong, cluster.kubeconfig(tmp_path / "kubeconfig"), tmp_path)
    cluster.close()


@pytest.mark.parametrize("folder", PLAIN)
def test_containers_are_of_this_release_and_confined(folder: str) -> None:
    found = list(containers(PLAIN[folder]))
    assert found
    for container in found:
        assert container["image"] == OWN_IMAGE
        check_arguments(container["args"])
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert "/tmp" in {mount["mountPath"] for mount in container["volumeMounts"]}, "the rest is read-only"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["hub", "--data-dirs", "x"], NoSuchOption),
        (["hubs"], AssertionError),
        (["hub", "more"], AssertionError),
        (["syncer", "--from-kubeconfig", "x"], AssertionError),
        (["provisioner", "--cluster", "a/b", "--planner", "none"], Exception),
    ],
)
def test_flags_that_do_not_exist_are_noticed(arguments: list[str], error: type[Exception]) -> None:
    with pytest.raises(error):
        check_arguments(arguments)


# --- the image ---


def test_the_image_is_confined_and_says_how_it_is() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    stages = [line for line in text.splitlines() if line.startswith("FROM ")]
    assert len(stages) == 2
    assert stages[0].endswith(" AS build")
    assert text.index("USER 65532:65532") > text.index(stages[1]), "of the last stage"
    assert "HEALTHCHECK" in text
    assert "https://127.0.0.1:6443/readyz" in text
    ignored = (DEPLOY / "Containerfile.dockerignore").read_text().split()
    assert ignored[0] == "*"
    kept = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    copied = {word for line in text.splitlines() if line.startswith("COPY ") for word in line.split()[1:-1]}
    assert {word for word in copied if not word.startswith(("--", "/"))} == kept


# --- the chart ---


@pytest.fixture(scope="module")
def schema() -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(json.loads((CHART / "values.schema.json").read_text()))


@pytest.fixture
def values() -> Object:
    found: Object = yaml.safe_load((CHART / "values.yaml").read_text())
    return found


def test_the_chart_is_of_this_release(values: Object) -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    assert f"{values['image']['repository']}:{values['image']['tag'] or chart['appVersion']}" == OWN_IMAGE


def at(values: Object, path: str, value: Any) -> Object:
    *before, last = path.split(".")
    inner = values
    for name in before:
        inner = inner[name]
    inner[last] = value
    return values


WRONG: list[tuple[str, Any]] = [
    ("hub.replicas", 0),
    ("hub.replica", 3),
    ("hub.etcd.endpoints", ["etcd:2379"]),
    ("hub.advertiseAddress", "https://hub.example.com"),
    ("hub.service.type", "Loadbalancer"),
    ("hub.rootProfile", "none"),
    ("hub.persistence.size", "ten"),
    ("workers", [{"name": "far"}]),
    ("workers", [{"name": "Far", "hubSecret": "far"}]),
    ("syncer.enabled", True),
    ("syncer.resources", []),
    ("provisioner.enabled", True),
    ("provisioner.planner", "cheapest"),
    ("image.pullPolicy", "Sometimes"),
]


def test_values_as_they_are_fit_their_schema(schema: jsonschema_rs.Validator, values: Object) -> None:
    assert list(schema.iter_errors(values)) == []
    assert set(schema_of(values)) == set(json.loads((CHART / "values.schema.json").read_text())["properties"])


def schema_of(values: Object) -> list[str]:
    """`global` is Helm's own."""
    return [*values, "global"]


@pytest.mark.parametrize(("path", "value"), WRONG, ids=lambda part: str(part)[:30])
def test_wrong_values_are_refused(schema: jsonschema_rs.Validator, values: Object, path: str, value: Any) -> None:
    assert list(schema.iter_errors(at(values, path, value)))


def test_the_hub_of_the_manifests_can_be_asked_for_its_kubeconfig() -> None:
    """What kustomization.yaml and the notes of the chart tell to type, in the pod."""
    (container,) = containers(PLAIN["hub"])
    where = container["args"][container["args"].index("--data-dir") + 1]
    assert f"SHOAL_DATA_DIR={where}" in (DEPLOY / "Containerfile").read_text().replace(" \\\n    ", "\n")
    asked = CliRunner().invoke(shoal, ["kubeconfig", "--help"])
    assert asked.exit_code == 0
