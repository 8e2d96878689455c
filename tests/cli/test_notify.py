"""A hub tells systemd when it is ready, and nothing else of its environment notices."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.cli.notify import notify_ready
from tests.faults.processes import Up


@pytest.fixture
def address() -> Iterator[Path]:
    """The name of a socket has to fit into a hundred bytes."""
    with tempfile.TemporaryDirectory(prefix="shoal-") as directory:
        yield Path(directory) / "notify"


@pytest.fixture
def systemd(address: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(address))
        listening.setblocking(False)
        yield listening


def test_a_hub_is_ready_when_it_serves(systemd: socket.socket, address: Path, tmp_path: Path) -> None:
    hub = Up(
        tmp_path / "data", verb="hub", environ=os.environ | {"NOTIFY_SOCKET": str(address)}, ready="Shoal is ready"
    )
    try:
        systemd.settimeout(60)
        assert systemd.recv(100) == b"READY=1"
    finally:
        assert hub.terminate()[0] == 0
        hub.close()


def test_an_abstract_address(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"shoal-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0{name}")
        listening.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
        notify_ready()
        assert listening.recv(100) == b"READY=1"
    assert "NOTIFY_SOCKET" not in os.environ, "child processes are not asked"


def test_without_systemd_nothing_happens(monkeypatch: pytest.MonkeyPatch, address: Path) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify_ready()
    monkeypatch.setenv("NOTIFY_SOCKET", str(address))
    notify_ready()
