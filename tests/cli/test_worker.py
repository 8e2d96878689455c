"""The options of `shoal worker`."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from shoal.assemble.server.worker import WorkerOptions
from shoal.cli.worker import command


@pytest.mark.parametrize(("flags", "seconds"), [([], 300), (["--idle-seconds", "7"], 7)])
def test_when_clusters_of_a_worker_sleep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str], seconds: float
) -> None:
    (tmp_path / "kubeconfig").write_text("{}")
    told: list[WorkerOptions] = []
    monkeypatch.setattr("shoal.assemble.server.worker.run_worker", lambda process, ready: told.append(process))
    run = CliRunner().invoke(command, ["--hub-kubeconfig", str(tmp_path / "kubeconfig"), "--name", "w", *flags])
    assert run.exit_code == 0, run.output
    assert [process.idle_seconds for process in told] == [seconds]
    run = CliRunner().invoke(command, ["--hub-kubeconfig", str(tmp_path / "kubeconfig"), "--idle-seconds", "0"])
    assert run.exit_code == 2
