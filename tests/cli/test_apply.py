"""`shoal apply`: server-side apply of whatever people have manifests in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from shoal.cli.manifests import read_manifests
from shoal.cli.options.hub import CommandError
from tests.cli.conftest import Run, said
from tests.serving import Cluster, Server, config_map, widget, widget_definition

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def root(fleet: Server) -> Iterator[Cluster]:
    root = Cluster(fleet, "root")
    yield root
    root.close()


def test_several_documents_from_standard_input(run: Run, root: Cluster) -> None:
    one, two = config_map("apply-a", {"k": "1"}), config_map("apply-b", namespace="kube-public")
    text = yaml.safe_dump_all([one, None, {"apiVersion": "v1", "kind": "List", "items": [two]}])
    assert said(run("apply", "-f", "-", given=text)) == (
        "configmap/apply-a serverside-applied\nconfigmap/apply-b serverside-applied\n"
    )
    made = root.get(f"{MAPS}/apply-a").ok()
    assert made["data"] == {"k": "1"}
    fields = [(one["manager"], one["operation"]) for one in made["metadata"]["managedFields"]]
    assert fields == [("shoal-apply", "Apply")]
    assert root.get("/api/v1/namespaces/kube-public/configmaps/apply-b").status == 200


def test_a_dry_run_keeps_nothing(run: Run, root: Cluster) -> None:
    text = json.dumps(config_map("apply-dry"))
    assert said(run("apply", "-f", "-", "--dry-run=server", given=text)) == (
        "configmap/apply-dry serverside-applied (server dry run)\n"
    )
    assert root.get(f"{MAPS}/apply-dry").status == 404


def test_a_definition_and_its_objects_in_one_go(run: Run, root: Cluster) -> None:
    text = yaml.safe_dump_all([widget_definition(), widget("apply-w")])
    assert said(run("apply", "-f", "-", given=text)).splitlines() == [
        "customresourcedefinition.apiextensions.k8s.io/widgets.example.com serverside-applied",
        "widget.example.com/apply-w serverside-applied",
    ]


def test_a_folder_by_name_and_deeper_when_asked(run: Run, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for name in ("b.yaml", "a.json", "deep/c.yml", "notes.txt"):
        (tmp_path / name).write_text(json.dumps(config_map(f"apply-{name[0]}-folder")))
    names = [obj["metadata"]["name"] for obj in read_manifests([str(tmp_path)])]
    assert names == ["apply-a-folder", "apply-b-folder"]
    text = said(run("apply", "-R", "-f", str(tmp_path), "-o", "json", "-n", "kube-public"))
    items = json.loads(text)["items"]
    assert [item["metadata"]["name"] for item in items] == ["apply-a-folder", "apply-b-folder", "apply-d-folder"]
    assert {item["metadata"]["namespace"] for item in items} == {"kube-public"}


def test_what_fails_does_not_keep_the_others(run: Run, root: Cluster) -> None:
    wrong = {"apiVersion": "example.com/v9", "kind": "Nothing", "metadata": {"name": "x"}}
    text = yaml.safe_dump_all([wrong, config_map("Not A Name"), config_map("apply-after")])
    result = run("apply", "-f", "-", given=text)
    assert result.stdout == "configmap/apply-after serverside-applied\n"
    assert result.stderr == "error: x: the hub does not serve Nothing of example.com/v9\n"
    assert isinstance(result.exception, CommandError)
    assert str(result.exception).startswith("ConfigMap Not A Name: ")
    assert root.get(f"{MAPS}/apply-after").status == 200


def test_fields_that_nobody_knows_are_refused(run: Run) -> None:
    result = run("apply", "-f", "-", given=json.dumps({**config_map("apply-strict"), "dta": {}}))
    assert 'unknown field "dta"' in str(result.exception) or "dta" in str(result.exception)


def test_fields_of_others_are_taken_only_by_force(run: Run, root: Cluster) -> None:
    root.post(MAPS, config_map("apply-theirs", {"k": "theirs"})).ok()
    text = json.dumps(config_map("apply-theirs", {"k": "ours"}))
    result = run("apply", "-f", "-", given=text)
    assert isinstance(result.exception, CommandError)
    assert result.exception.hint == "add --force-conflicts to take over the fields"
    said(run("apply", "-f", "-", "--force-conflicts", given=text))
    assert root.get(f"{MAPS}/apply-theirs").ok()["data"] == {"k": "ours"}


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("", "there is nothing to apply"),
        ("kind: ConfigMap\nmetadata: {}\n", "- contains a document that is not a named object"),
        ("just text", "- contains a document that is not a named object"),
        ("a: [", "- cannot be read: yaml: line 1: did not find expected node content"),
    ],
)
def test_what_is_no_manifest(run: Run, given: str, complaint: str) -> None:
    result = run("apply", "-f", "-", given=given)
    assert isinstance(result.exception, CommandError)
    assert str(result.exception).startswith(complaint)
    assert "\n" not in str(result.exception)


def test_dates_stay_text(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: A\nmetadata: {name: a}\nspec: {on: 2026-01-02}\n")
    assert read_manifests([str(tmp_path / "a.yaml")])[0]["spec"] == {"true": "2026-01-02"}
