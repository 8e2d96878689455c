"""The bundle as files: deploy/ matches the code, and the bundle can run the image."""

from __future__ import annotations

from pathlib import Path

import yaml
from click.testing import CliRunner

from shoal.assemble.commands.bundle import bundle_files
from shoal.cli.workerbundle import command
from shoal.fleet.bundle.objects import USER_ID, BundleSpec, bundle_objects

DEPLOY = Path(__file__).parents[3] / "deploy"


def test_the_files_are_what_the_code_says() -> None:
    """If not: shoal worker-bundle --name far --directory deploy/worker"""
    wanted = bundle_files("far")
    assert {path.name: path.read_text() for path in (DEPLOY / "worker").glob("*.yaml")} == wanted
    assert yaml.safe_load(wanted["kustomization.yaml"])["resources"] == [name for name in wanted if name[0] != "k"]


def test_the_command_prints_what_a_hub_applies() -> None:
    done = CliRunner().invoke(command, ["--name", "far"])
    assert done.exit_code == 0
    printed = list(yaml.safe_load_all(done.stdout))
    assert printed == [obj for obj in bundle_objects(BundleSpec("far")) if obj["kind"] != "Secret"]
    assert "kubectl -n shoal-system create secret generic shoal-worker-far" in done.stderr
    other = CliRunner().invoke(command, ["--name", "far", "--image", "registry.example/shoal:2"])
    assert "image: registry.example/shoal:2\n" in other.stdout
    wrong = CliRunner().invoke(command, ["--name", "Far"])
    assert wrong.exit_code == 2
    assert "--name Far: " in wrong.output


def test_a_directory_that_kubectl_takes(tmp_path: Path) -> None:
    done = CliRunner().invoke(command, ["--name", "near", "--directory", str(tmp_path / "d")])
    assert done.exit_code == 0
    found = {path.name: path.read_text() for path in (tmp_path / "d").iterdir()}
    assert found == bundle_files("near")


def test_the_image_is_one_the_bundle_can_run() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    assert f"USER {USER_ID}:{USER_ID}\n" in text
    assert 'ENTRYPOINT ["shoal"]' in text
