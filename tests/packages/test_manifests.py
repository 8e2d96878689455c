"""The plain manifests of `deploy/`: a server takes every object, containers are started with flags that exist, and
what runs in a cluster is confined the same way everywhere. The values of the chart are in test_chart_values.py; what it
renders is in tests/real/test_chart.py, with Helm."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
from click import NoSuchOption
from click.testing import CliRunner

from shoal.cli.main import shoal
from tests.packages.manifests import (
    DEPLOY,
    OWN_IMAGE,
    check_arguments,
    containers,
    dry_run,
    plain,
)
from tests.serving import Server, fresh_cluster

PLAIN = plain()


def test_there_is_something_for_every_part() -> None:
    assert set(PLAIN) == {"controllers", "hub", "provisioner", "syncer", "worker"}


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


def test_the_image_is_confined_and_built_without_a_network() -> None:
    lines = [line for line in (DEPLOY / "Containerfile").read_text().splitlines() if not line.startswith("#")]
    (user,) = (line for line in lines if line.startswith("USER "))
    assert user == "USER 65532:65532"
    assert [line for line in lines if line.startswith(("FROM ", "COPY "))] == [
        "FROM ${BASE}",
        "COPY ${TARGETARCH} /opt/shoal",
    ]
    # What comes after the user is run as that.
    assert not [line for line in lines[lines.index(user) :] if line.startswith(("RUN ", "COPY "))]
    (health,) = (line for line in lines if line.startswith("HEALTHCHECK "))
    assert "https://127.0.0.1:6443/readyz" in health


def test_the_hub_of_the_manifests_can_be_asked_for_its_kubeconfig() -> None:
    """What kustomization.yaml and the notes of the chart tell to type, in the pod."""
    (container,) = containers(PLAIN["hub"])
    where = container["args"][container["args"].index("--data-dir") + 1]
    assert f"SHOAL_DATA_DIR={where}" in (DEPLOY / "Containerfile").read_text().replace(" \\\n    ", "\n")
    asked = CliRunner().invoke(shoal, ["kubeconfig", "--help"])
    assert asked.exit_code == 0
