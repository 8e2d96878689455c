"""`shoal probe`, the check of `helm test`: a hub that is ready, its names, its version, and its workers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from shoal import __version__
from shoal.assemble.commands.probe import check_name, check_version
from shoal.cli.main import shoal
from tests.serving import Server, running_server


@pytest.fixture(scope="module")
def hub() -> Iterator[Server]:
    with running_server() as server:
        yield server


def probe(*words: str) -> tuple[int, list[str]]:
    done = CliRunner().invoke(shoal, ["probe", *words])
    return done.exit_code, done.stdout.splitlines()


def test_a_hub_that_is_ready(hub: Server, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.write_text("Joined")
    urls = [f"https://127.0.0.1:{hub.port}", f"https://localhost:{hub.port}"]
    code, lines = probe(*urls, "--join-state", f"far={state}")
    assert (code, len(lines)) == (0, 5), lines
    assert lines[0].startswith(f"ok    {urls[0]}  ready, v1.")
    assert lines[0].endswith(f"+shoal-{__version__}")
    assert lines[1] == f"ok    {urls[0]}  the certificate is valid for 127.0.0.1"
    assert lines[3].split() == f"ok {urls[1]} the certificate is valid for localhost".split()
    assert lines[4].split() == ["ok", "worker", "far", "Joined"]


def test_workers_that_have_not_joined(hub: Server, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.write_text("Waiting")
    places = ("--join-state", f"far={state}", "--join-state", f"near={tmp_path / 'none'}")
    code, lines = probe(f"https://127.0.0.1:{hub.port}", *places, "--timeout", "1s", "-o", "json")
    found = {each["name"]: (each["state"], each["said"]) for each in json.loads("\n".join(lines))}
    assert code == 1
    assert found["worker far"] == ("fail", "Waiting")
    assert found["worker near"] == ("fail", "the hub has not written its state yet")


def test_no_hub_there() -> None:
    code, lines = probe("https://127.0.0.1:1")
    assert code == 1
    assert lines[0].startswith("fail  https://127.0.0.1:1  https://127.0.0.1:1 cannot be reached: ")


def test_a_name_that_the_certificate_lacks() -> None:
    found = check_name("https://hub:6443", "hub", ["localhost", "127.0.0.1"])
    assert (found.state, found.said) == ("fail", "the certificate is not valid for hub")
    assert found.hint == "add it: --tls-san of the hub"
    assert check_name("https://Hub:6443", "Hub", ["hub"]).state == "ok"


def test_a_hub_of_another_version() -> None:
    found = check_version("https://hub:6443", b'{"gitVersion": "v1.36.4+shoal-0.0.9"}')
    said = f"ready, but of version v1.36.4+shoal-0.0.9; this is shoal {__version__}"
    assert (found.state, found.said) == ("fail", said)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ((), "Missing argument 'URL...'"),
        (("http://hub",), "'http://hub': give a URL such as https://10.0.0.1:6443"),
        (("https://hub:x",), "'https://hub:x': give a URL such as https://10.0.0.1:6443"),
        (("https://hub", "--join-state", "far"), "'far': give a worker and a file"),
        (("https://hub", "--timeout", "soon"), "'soon': give a duration such as 10s or 1m30s"),
    ],
)
def test_what_is_typed_wrongly(words: tuple[str, ...], error: str) -> None:
    done = CliRunner().invoke(shoal, ["probe", *words])
    assert done.exit_code == 2
    assert error in done.stderr
