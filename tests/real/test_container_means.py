"""What makes containers possible here: artifacts with stamps, archives of images, the runc, and NOT RUN."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.real import building
from tests.real.containers import __main__ as command
from tests.real.containers import engine, image_archive
from tests.real.containers.artifacts import Artifact, run

RUNC = building.built("runc")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOAL_CONTAINERS", str(tmp_path / "containers"))
    return tmp_path / "containers"


def written(name: str, recipe: str, made: list[str], *parts: Artifact) -> Artifact:
    def make(target: Path) -> None:
        made.append(name)
        target.write_text(recipe)

    return Artifact(name, recipe, make, parts)


def test_an_artifact_is_made_once_and_anew_when_a_part_of_it_changes(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[str] = []
    whole = written("whole", "a", made, written("part", "a", made))
    assert whole.missing() == ["part", "whole"]
    assert whole.build().read_text() == "a"
    assert whole.build().read_text() == "a"
    assert (made, whole.missing()) == (["part", "whole"], [])
    assert "built whole in " in capsys.readouterr().out
    written("whole", "a", made, written("part", "b", made)).build()
    assert made == ["part", "whole", "part", "whole"]
    assert (cache / "part").read_text() == "b"


def test_a_build_that_fails_is_no_artifact(cache: Path) -> None:
    def make(target: Path) -> None:
        target.write_text("half")
        raise RuntimeError

    broken = Artifact("whole", "a", make)
    with pytest.raises(RuntimeError):
        broken.build()
    assert not broken.is_built


def test_the_same_folders_make_the_same_image(tmp_path: Path) -> None:
    archives = []
    for number in (1, 2):
        folder = tmp_path / f"layer-{number}"
        (folder / "bin").mkdir(parents=True)
        (folder / "bin/program").write_text("#!/bin/sh\n")
        (folder / "bin/program").chmod(0o755)
        (folder / "bin/link").symlink_to("program")
        os.utime(folder / "bin/program", (number, number))
        archives.append(tmp_path / f"{number}.tar")
        image_archive.write(archives[-1], ["example/image:v1"], [folder], {"Cmd": ["program"]})
    first, second = archives
    assert image_archive.image_id(first) == image_archive.image_id(second)
    with tarfile.open(first) as archive:
        (manifest,) = json.load(_content(archive, "manifest.json"))
        config = json.load(_content(archive, manifest["Config"]))
        with tarfile.open(fileobj=_content(archive, manifest["Layers"][0])) as layer:
            assert layer.getmember("./bin/program").mode == 0o755
            assert layer.getmember("./bin/link").linkname == "program"
        assert manifest["RepoTags"] == ["example/image:v1"]
        assert config["config"]["Cmd"] == ["program"]
        assert config["rootfs"]["diff_ids"] == [f"sha256:{manifest['Layers'][0].partition('/')[0]}"]


def _content(archive: tarfile.TarFile, name: str) -> Any:
    return archive.extractfile(name)


@pytest.mark.skipif(RUNC is None, reason="runc (make containers builds it)")
@pytest.mark.parametrize("is_exec", [False, True])
def test_runc_is_given_nothing_that_needs_sys_resource(tmp_path: Path, is_exec: bool) -> None:
    process = {
        "args": ["sh"],
        "capabilities": {"bounding": ["CAP_KILL", "CAP_SYS_RESOURCE"], "ambient": ["CAP_SYS_RESOURCE"]},
        "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1048576, "soft": 1048576}],
        "oomScoreAdj": -998,
    }
    big = 9223372036854775807
    bundle = process if is_exec else {"process": process, "linux": {"resources": {"memory": {"limit": big}}}}
    file = tmp_path / "config.json"
    file.write_text(json.dumps(bundle))
    real = real_runc(tmp_path, 'echo "$@"')
    asked = ["exec", "--process", str(file)] if is_exec else ["--log", "x", "create", "--bundle", str(tmp_path)]
    said = subprocess.run(
        [str(RUNC), *asked, "name"], env={"PATH": str(real.parent)}, check=True, capture_output=True, text=True
    )
    assert said.stdout.split() == [*asked, "name"]
    left = json.loads(file.read_text())
    inner = left if is_exec else left["process"]
    assert inner == {"args": ["sh"], "capabilities": {"bounding": ["CAP_KILL"], "ambient": []}}
    if not is_exec:
        assert left["linux"]["resources"]["memory"]["limit"] == big


@pytest.mark.skipif(RUNC is None, reason="runc (make containers builds it)")
def test_runc_thaws_what_it_kills(tmp_path: Path) -> None:
    """A frozen process does not end, and its container neither: `docker rm --force` would give up."""
    inner = tmp_path / "freezer/inner/freezer.state"
    inner.parent.mkdir(parents=True)
    real = real_runc(tmp_path, 'echo "$@"; exit 3')
    ended = subprocess.Popen(["true"])
    ended.wait()
    (tmp_path / "root/name").mkdir(parents=True)
    state = {"init_process_pid": ended.pid, "cgroup_paths": {"freezer": str(tmp_path / "freezer")}}
    (tmp_path / "root/name/state.json").write_text(json.dumps(state))
    for number, left in (("15", "FROZEN"), ("9", "THAWED")):
        inner.write_text("FROZEN")
        asked = ["--root", str(tmp_path / "root"), "kill", "--all", "name", number]
        said = subprocess.run(
            [str(RUNC), *asked], env={"PATH": str(real.parent)}, check=False, capture_output=True, text=True
        )
        assert (said.returncode, said.stdout.split()) == (3, asked)
        assert inner.read_text() == left


def real_runc(directory: Path, script: str) -> Path:
    """What the wrapped runc calls in turn."""
    file = directory / "path" / "runc"
    file.parent.mkdir()
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


def test_a_machine_that_can_run_no_engine_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert command.main(["true"]) == 0
    assert capsys.readouterr().out == "NOT RUN: a container engine that answers, or root to start one\n"


def test_a_build_that_fails_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    broken = Artifact("broken", "a", lambda target: print(run("false", target)))
    monkeypatch.setattr(engine, "lacks", lambda: "")
    monkeypatch.setattr(command, "PROGRAMS", ())
    monkeypatch.setattr(command, "IMAGES", {"example/broken:v1": broken})
    assert command.main(["true"]) == 1
    assert capsys.readouterr().err == "error: false failed: \n"


def test_what_is_not_built_is_not_run_where_nothing_may_be_built(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engine, "lacks", lambda: "")
    monkeypatch.setattr(command, "PROGRAMS", ())
    assert command.main(["--built", "true"]) == 0
    assert capsys.readouterr().out == (
        f"NOT RUN: {', '.join(command.IMAGES)} (not in the cache; make containers takes minutes to build them)\n"
    )
