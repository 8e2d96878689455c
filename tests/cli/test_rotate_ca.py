"""`shoal rotate-ca` at a hub with a worker, and in a data directory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shoal.apiserver.pki.ca import CertificateAuthority
from shoal.cli.options.hub import CommandError
from tests.cli.conftest import Run, said
from tests.serving import Cluster, Server

MANAGED = "/apis/infrastructure.cluster.x-k8s.io/v1alpha1/namespaces/default/managedclusters/west"
LOGICAL = "/apis/core.shoal.dev/v1alpha1/logicalclusters"


def test_the_keys_of_a_managed_cluster(run: Run, fleet: Server) -> None:
    root = Cluster(fleet, "root")
    result = run("rotate-ca", "--cluster", "west")
    assert said(result) == ""
    assert result.stderr == "keys of generation 2 are in force; former keys are trusted until --finish\n"
    assert root.get(MANAGED).ok()["status"]["keys"] == {"generation": 2, "trustFormer": True}
    again = run("rotate-ca", "--cluster", "west")
    assert isinstance(again.exception, CommandError)
    assert str(again.exception) == "the keys of west are being rotated already"
    assert run("rotate-ca", "--cluster", "west", "--finish").stderr == (
        "keys of generation 2 are in force; former keys are refused\n"
    )
    assert root.get(MANAGED).ok()["status"]["keys"] == {"generation": 2, "trustFormer": False}
    finished = run("rotate-ca", "--cluster", "west", "--finish")
    assert str(finished.exception) == "the keys of west are not being rotated"
    root.close()


def test_the_keys_of_a_logical_cluster(run: Run, fleet: Server) -> None:
    root = Cluster(fleet, "root")
    type_meta = {"apiVersion": "core.shoal.dev/v1alpha1", "kind": "LogicalCluster"}
    root.post(LOGICAL, {**type_meta, "metadata": {"name": "rotated"}, "spec": {"profile": "cluster"}}).ok()
    for generation in (2, 3):
        said(run("rotate-ca", "--logical-cluster", "rotated"))
        said(run("rotate-ca", "--logical-cluster", "rotated", "--finish"))
        found = root.get(f"{LOGICAL}/rotated").ok()["status"]
        assert found["keys"] == {"generation": generation, "trustFormer": False}
    root.delete(f"{LOGICAL}/rotated").ok()
    root.close()


def test_a_rotation_that_is_not_in_force_in_time(run: Run, fleet: Server) -> None:
    """It continues; nobody hosts this cluster yet."""
    root = Cluster(fleet, "root")
    path = MANAGED.removesuffix("/west")
    spec = {"nodes": 0, "location": "nowhere"}
    type_meta = {"apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "ManagedCluster"}
    root.post(path, {**type_meta, "metadata": {"name": "unassigned"}, "spec": spec}).ok()
    late = run("rotate-ca", "--cluster", "unassigned", "--timeout", "0.3")
    assert str(late.exception).startswith("the rotation of unassigned is requested and not in force after 0 s")
    assert root.get(f"{path}/unassigned").ok()["spec"]["keys"] == {"generation": 2, "trustFormer": True}
    again = run("rotate-ca", "--cluster", "unassigned", "--timeout", "0.3")
    assert str(again.exception) == str(late.exception)
    assert root.get(f"{path}/unassigned").ok()["spec"]["keys"]["generation"] == 2
    root.delete(f"{path}/unassigned").ok()
    root.close()


def test_one_target(run: Run) -> None:
    for arguments in ((), ("--cluster", "a", "--logical-cluster", "b"), ("--server", "--cluster", "a")):
        result = run("rotate-ca", *arguments)
        assert result.exit_code == 2
        assert "give one of --cluster, --logical-cluster and --server" in result.output


def test_the_authority_of_a_server(run: Run, tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path / "pki")
    authority.ensure_serving_certificate(["hub.example"])
    (tmp_path / "pki" / "cluster-keys.key").touch()
    former = authority.certificate
    assert run("rotate-ca", "--server", "--data-dir", str(tmp_path)).stderr == (
        "the new certificate authority is in force; the former one is trusted until --finish\n"
    )
    assert authority.certificate.endswith(former)
    again = run("rotate-ca", "--server", "--data-dir", str(tmp_path))
    assert str(again.exception) == "the certificate authority is being rotated already: finish that first"
    result = run("rotate-ca", "--finish", "--data-dir", str(tmp_path))
    assert result.stderr == "removed the former certificate in ca.crt\n"
    assert former not in authority.certificate
    assert json.loads((tmp_path / "pki" / "serving.json").read_bytes())["names"] == ["hub.example", "shoal-server"]
    assert run("rotate-ca", "--finish", "--data-dir", str(tmp_path)).stderr == (
        "there is no former certificate authority\n"
    )


def test_a_directory_without_a_server(run: Run, tmp_path: Path) -> None:
    result = run("rotate-ca", "--server", "--data-dir", str(tmp_path))
    with pytest.raises(Exception, match="has no certificate authority"):
        raise result.exception  # type: ignore[misc]
