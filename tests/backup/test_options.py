"""The options the commands accept and refuse, before any store is touched."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from shoal.assemble.storage.config import StoreSettings
from shoal.assemble.workers.processes import _encryption_flags
from shoal.cli.main import shoal
from shoal.cli.options.store import _parse_kinds


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("secrets", ("core/secrets",)),
        (" secrets , configmaps", ("core/secrets", "core/configmaps")),
        ("widgets.example.com,core/secrets", ("example.com/widgets", "core/secrets")),
        ("none", ()),
    ],
)
def test_kinds_to_encrypt(text: str, kinds: tuple[str, ...]) -> None:
    assert _parse_kinds(text) == kinds


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["backup"], "Missing argument 'FILE'"),
        (["backup", "f", "--revision", "0"], "--revision"),
        (["backup", "f", "--kubeconfig", "k", "--data-dir", "d"], "--kubeconfig cannot be used with --data-dir"),
        (["backup", "f", "--etcd-cafile", "x"], "--etcd-... flags require --store etcd"),
        (["restore", "nowhere"], "'nowhere' does not exist"),
        (["encrypt"], "--encryption-key-file is required"),
        (["fsck", "--encrypted-kinds", ","], "--encrypted-kinds is empty"),
    ],
)
def test_what_is_wrong_with_the_flags_is_said(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(shoal, arguments)
    assert list(tmp_path.iterdir()) == []
    assert (result.exit_code, said in result.output) == (2, True), result.output


def test_worker_processes_encrypt_as_their_hub(tmp_path: Path) -> None:
    assert _encryption_flags(StoreSettings()) == []
    keys, kinds = str(tmp_path / "keys"), ("core/secrets", "example.com/widgets")
    flags = _encryption_flags(StoreSettings("etcd", encryption_key_file=keys, encrypted_kinds=kinds).encryption_only)
    assert flags == ["--encryption-key-file", keys, "--encrypted-kinds", "core/secrets,example.com/widgets"]
    assert _parse_kinds(flags[-1]) == kinds
    assert _encryption_flags(StoreSettings(encryption_key_file=keys, encrypted_kinds=()))[-1] == "none"
