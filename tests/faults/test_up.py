"""The process around the server: how it stops, who may share its data directory, what it leaves there."""

from __future__ import annotations

import stat
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.processes import HANG, Up, command
from tests.serving import config_map

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    up = Up(tmp_path / "data")
    yield up
    up.close()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def second(data: Path) -> subprocess.CompletedProcess[str]:
    arguments = command("up", "--data-dir", str(data), "--listen", "127.0.0.1:0")
    return subprocess.run(arguments, capture_output=True, text=True, timeout=HANG, check=False)


def test_sigterm_ends_a_watch_cleanly_and_a_restart_serves_the_same(up: Up) -> None:
    client = up.client()
    made = client.request("POST", CONFIG_MAPS, config_map("a", {"k": "v"}))
    events: list[dict[str, Any]] = []
    opened = threading.Event()

    def watch() -> None:
        for event in up.client().watch(f"{CONFIG_MAPS}?watch=1"):
            events.append(event)
            opened.set()

    watching = threading.Thread(target=watch)
    watching.start()
    assert opened.wait(HANG)
    assert up.terminate() == (0, "stopping\n")
    watching.join(HANG)
    assert [event["type"] for event in events] == ["ADDED"], "a broken stream would have ended with BROKEN"
    again = Up(up.data)
    try:
        assert (again.port, again.token) == (up.port, up.token)
        assert again.client().request("GET", f"{CONFIG_MAPS}/a") == made
    finally:
        again.close()


def test_files_are_for_their_owner_only(up: Up) -> None:
    assert mode(up.data) == 0o700
    for name in ("kubeconfig", "admin-token", "shoal.db", "pki/ca.key", "pki/cluster-keys.key", "pki/serving.pem"):
        assert mode(up.data / name) == 0o600, name


def test_data_directory_in_use_names_its_process(up: Up) -> None:
    refused = second(up.data)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith(f"error: {up.data} is in use by the shoal process {up.pid}\nhint: ")
    assert up.client().request("GET", "/version")


def test_newer_format_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "format").write_text("3\n")
    refused = second(tmp_path)
    assert refused.returncode == 1
    assert refused.stderr == (
        f"error: {tmp_path} has data format '3', this shoal supports up to 2\nhint: use the newer shoal that wrote it\n"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["format", "lock"]


def test_foreign_database_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "shoal.db").write_text("not a database, and longer than its header would be")
    refused = second(tmp_path)
    assert refused.returncode == 1
    assert refused.stderr == f"error: {tmp_path}/shoal.db is not a Shoal store\n"
    assert (tmp_path / "shoal.db").read_text().startswith("not a database")


def test_taken_port_is_told_in_a_sentence(up: Up, tmp_path: Path) -> None:
    arguments = command("up", "--data-dir", str(tmp_path / "other"), "--listen", f"127.0.0.1:{up.port}")
    refused = subprocess.run(arguments, capture_output=True, text=True, timeout=HANG, check=False)
    assert refused.returncode == 1
    assert "Traceback" not in refused.stderr
    assert refused.stderr.startswith(f"error: cannot listen on 127.0.0.1:{up.port}: ")


def test_the_hub_serves_every_kind_in_root_when_asked_to_and_remembers(tmp_path: Path) -> None:
    """Once given, the profile of root is kept with the data."""
    first = subprocess.Popen(
        command("hub", "--root-profile", "cluster", "--data-dir", str(tmp_path), "--listen", "127.0.0.1:0"),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert first.stderr is not None
    assert any(line.startswith("next: ") for line in first.stderr)
    first.terminate()
    assert first.wait(60) == 0
    first.stderr.close()
    again = Up(tmp_path)
    assert again.client().request("GET", "/apis/apps/v1/deployments")["kind"] == "DeploymentList"
    again.close()
