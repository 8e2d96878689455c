"""A restore that is killed anywhere leaves the old store, the new one, or one that no server starts with; never
nothing.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.assemble.commands.restore import RestoreOptions, restore
from shoal.assemble.storage.config import StoreSettings
from shoal.assemble.storage.datadir import DataDir
from shoal.assemble.storage.factory import open_store
from shoal.store.interface import StoreLost
from tests.backup.stores import StoreLocation, contents


class SimulatedKill(BaseException):
    pass


def servable_contents(path: Path) -> dict[str, bytes] | None:
    """Returns the contents a server would start with; None if it refuses."""

    async def look() -> dict[str, bytes]:
        directory = DataDir(path)
        try:
            opened = await open_store(directory, StoreSettings())
            try:
                return {item.key: item.value for item in (await opened.store.range(""))[0]}
            finally:
                await opened.close()
        finally:
            directory.close()

    try:
        return asyncio.run(look())
    except StoreLost:
        return None


def prepare_restore(tmp_path: Path, count: int) -> tuple[Path, Path, dict[str, bytes], dict[str, bytes]]:
    """Creates a backup, and a data directory that has served another store."""
    source, there = StoreLocation(tmp_path), StoreLocation(tmp_path)
    new, old = contents(count), contents(30)
    source.fill(new)
    source.backup(tmp_path / "file")
    there.fill(old)
    assert servable_contents(there.directory) == old
    return tmp_path / "file", there.directory, new, old


def test_cut_before_every_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, directory, new, old = prepare_restore(tmp_path, 60)
    asked = RestoreOptions(file, directory, StoreSettings(), replace=True)
    whole = {"rename": Path.rename, "replace": Path.replace}
    left = 0

    def cutting(name: str) -> Callable[[Path, Path], Path]:
        """Every file gets its name by one of the two."""

        def call(path: Path, target: Path) -> Path:
            nonlocal left
            left -= 1
            if left < 0:
                raise SimulatedKill
            return whole[name](path, target)

        return call

    seen: list[dict[str, bytes] | None] = []
    for steps in range(30):
        left = steps
        with monkeypatch.context() as patched:
            for name in whole:
                patched.setattr(Path, name, cutting(name))
            try:
                restore(asked)
                break
            except SimulatedKill:
                pass
        seen.append(servable_contents(directory))
    assert 4 <= len(seen) < 30
    assert all(found in (old, new, None) for found in seen)
    assert servable_contents(directory) == new
    assert any((aside / "shoal.db").exists() for aside in directory.glob("replaced-*"))


@pytest.mark.soak
def test_kill_9_at_any_moment(tmp_path: Path) -> None:
    file, directory, new, old = prepare_restore(tmp_path, 5000)
    command = [sys.executable, "-P", "-m", "shoal.cli.main", "restore", str(file), "--data-dir", str(directory)]
    for kill in range(40):
        process = subprocess.Popen([*command, "--force-replace"], stderr=subprocess.DEVNULL, env=dict(os.environ))
        time.sleep(0.2 + kill * 0.02)
        process.kill()
        process.wait(60)
        assert servable_contents(directory) in (old, new, None)
    assert subprocess.run([*command, "--force-replace"], capture_output=True).returncode == 0
    assert servable_contents(directory) == new
