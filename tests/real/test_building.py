"""The bench of peers: what counts as built, and what SHOAL_REQUIRE demands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real import building


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHOAL_PEERS", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.delenv("SHOAL_REQUIRE", raising=False)
    return tmp_path


def put(cache: Path, name: str, stamp: str) -> None:
    (cache / name).write_text("#!/bin/sh\n")
    (cache / name).chmod(0o755)
    (cache / f"{name}.stamp").write_text(stamp)


def test_a_program_is_built_as_long_as_its_stamp_is_that_of_the_module(cache: Path) -> None:
    assert building.built("etcd") is None
    put(cache, "etcd", building.PROGRAMS["etcd"].stamp)
    assert building.built("etcd") == cache / "etcd"
    put(cache, "etcd", "v3.4.0 0\n")
    assert building.built("etcd") is None


def test_versions_are_those_of_the_module_files() -> None:
    for name, program in building.PROGRAMS.items():
        assert f" {program.version}" in (building.MODULES / program.module / "go.mod").read_text(), name


def test_absence_is_told_and_fails_only_when_required(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert building.main(["etcd"]) == 0
    assert capsys.readouterr().out == "NOT RUN: go (to build etcd)\n"
    monkeypatch.setenv("SHOAL_REQUIRE", "go,etcd")
    put(cache, "etcd", building.PROGRAMS["etcd"].stamp)
    assert building.main(["etcd"]) == 1
    assert capsys.readouterr().err == "error: SHOAL_REQUIRE asks for go, and it is not here\n"
