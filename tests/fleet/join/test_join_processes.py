"""`shoal join-token` and the command it prints: a worker process joins, hosts, is killed and comes back."""

from __future__ import annotations

import base64
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from shoal.cli.jointoken import command as join_token
from shoal.cli.worker import command as worker
from tests.faults.processes import HANG, Up, command
from tests.fleet.fleets import managed, phase
from tests.serving import Cluster, running_server

Object = dict[str, Any]

GROUP = "/apis/infrastructure.cluster.x-k8s.io/v1alpha1"
CLUSTERS = f"{GROUP}/namespaces/default/managedclusters"
WORKERS = f"{GROUP}/namespaces/shoal-system/workers"
READY = "the worker's own API is at "


@pytest.fixture(scope="module")
def hub() -> Iterator[Cluster]:
    with running_server() as server:
        root = Cluster(server, "root")
        yield root
        root.close()


def asked(hub: Cluster, tmp_path: Path, *arguments: str) -> Result:
    file = hub.kubeconfig(tmp_path / "admin.kubeconfig")
    return CliRunner().invoke(join_token, [*arguments, "--kubeconfig", str(file)])


def typed(hub: Cluster, tmp_path: Path, *arguments: str) -> list[str]:
    """The flags of the command that `join-token create` prints."""
    line = shlex.split(asked(hub, tmp_path, "create", *arguments).stdout)
    assert line[:2] == ["shoal", "worker"]
    return line[2:]


def test_a_worker_joins_by_the_command_that_was_printed(hub: Cluster, tmp_path: Path) -> None:
    flags = typed(hub, tmp_path, "--name", "far", "--location", "north")
    assert flags[-4:] == ["--name", "far", "--location", "north"]
    home = tmp_path / "far"
    process = Up(home, *flags, "--capacity", "2", verb="worker", ready=READY)
    try:
        hub.eventually(lambda: hub.get(f"{WORKERS}/far").status == 200)
        hub.eventually(lambda: phase(hub.get(f"{WORKERS}/far").ok()) == "Running")
        assert hub.get(f"{WORKERS}/far").ok()["spec"]["location"] == "north"
        hub.post(CLUSTERS, managed("east", nodes=1)).ok()
        hub.eventually(lambda: phase(hub.get(f"{CLUSTERS}/east").ok()) == "Running")
        assert hosted(hub, "east") == 200, "through the tunnel, which it keeps as itself"
        process.kill()
        hub.patch(f"{CLUSTERS}/east", {"spec": {"nodes": 2}}).ok()
        process = Up(home, "--name", "far", "--location", "north", verb="worker", ready=READY)
        hub.eventually(lambda: hub.get(f"{CLUSTERS}/east").ok()["status"].get("nodes") == 2)
        token = flags[flags.index("--token") + 1]
        for file in home.rglob("*"):
            assert not file.is_file() or token.encode() not in file.read_bytes()
            assert file.name not in ("hub.kubeconfig", "hub.key") or file.stat().st_mode & 0o777 == 0o600
        assert token not in process.said
        second = subprocess.run(
            command("worker", *flags, "--data-dir", str(tmp_path / "second"), "--listen", "127.0.0.1:0"),
            capture_output=True,
            text=True,
            timeout=HANG,
        )
        assert second.returncode == 4
        assert f"join token {token[:6]} was already used by worker far\nhint: create a token" in second.stderr
        listed = asked(hub, tmp_path, "list").stdout
        assert "by far" in listed
        assert token not in listed
        hub.delete(f"{CLUSTERS}/east").ok()
        hub.eventually(lambda: hub.get(f"{CLUSTERS}/east").status == 404)
        assert process.terminate()[0] == 0
    finally:
        process.close()


def hosted(hub: Cluster, name: str) -> int:
    """What the hosted cluster answers to who has its kubeconfig."""
    secret = hub.get(f"/api/v1/namespaces/default/secrets/{name}-kubeconfig").ok()
    config = yaml.safe_load(base64.b64decode(secret["data"]["value"]))
    path = config["clusters"][0]["cluster"]["server"].split("/", 3)[3]
    token = config["users"][0]["user"]["token"]
    answers = hub.server.connect()

    def ask() -> int:
        answers.request("GET", f"/{path}/api/v1/namespaces", headers={"Authorization": f"Bearer {token}"})
        got = answers.getresponse()
        got.read()
        return got.status

    try:
        hub.eventually(lambda: ask() == 200)
        return ask()
    finally:
        answers.close()


def test_tokens_are_made_shown_and_taken_back(hub: Cluster, tmp_path: Path) -> None:
    token = asked(hub, tmp_path, "create", "-o", "token", "--ttl", "30m").stdout.strip()
    listed = asked(hub, tmp_path, "list").stdout
    row = next(line.split() for line in listed.splitlines() if line.startswith(token[:6]))
    assert row[:2] == [token[:6], "any"]
    assert token[7:] not in listed
    config = asked(hub, tmp_path, "create", "-o", "kubeconfig")
    found = yaml.safe_load(config.stdout)
    assert found["clusters"][0]["cluster"]["server"] == f"https://127.0.0.1:{hub.server.port}"
    assert "next: shoal worker --hub-kubeconfig FILE\n" in config.stderr
    assert "is reachable from this machine only" in config.stderr
    assert asked(hub, tmp_path, "delete", token).exit_code == 0
    assert token[:6] not in asked(hub, tmp_path, "list").stdout
    gone = asked(hub, tmp_path, "delete", token[:6])
    assert str(gone.exception) == f"there is no join token {token[:6]}"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--ttl", "0"], "give a duration from 1m to 720h"),
        (["--ttl", "soon"], "give a duration from 1m to 720h"),
        (["--ttl", "721h"], "give a duration from 1m to 720h"),
        (["--name", "A"], "--name A: "),
        (["--name", "a", "--reusable"], "--reusable cannot be used with --name"),
    ],
)
def test_tokens_that_are_not_made(hub: Cluster, tmp_path: Path, flags: list[str], said: str) -> None:
    run = asked(hub, tmp_path, "create", *flags)
    assert run.exit_code == 2
    assert said in run.output


HASH = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--hub", "http://x", "--ca-hash", HASH], "give a URL such as https://10.0.0.1:6443"),
        (["--hub", "https://x"], "--hub requires --ca-hash"),
        (["--hub", "https://x", "--ca-hash", "sha256:12"], "--hub requires --ca-hash"),
        (["--hub", "https://x", "--ca-hash", "0" * 64], "--hub requires --ca-hash"),
        (["--hub", "https://x", "--ca-hash", HASH, "--token", "x"], "a join token is 6 letters or digits"),
        (["--ca-hash", HASH], "--ca-hash requires --hub"),
    ],
)
def test_flags_of_a_worker(flags: list[str], said: str) -> None:
    run = CliRunner().invoke(worker, flags)
    assert run.exit_code == 2
    assert said in run.output


def test_a_worker_that_was_told_of_no_hub(tmp_path: Path) -> None:
    run = subprocess.run(
        command("worker", "--name", "w", "--data-dir", str(tmp_path / "w"), "--listen", "127.0.0.1:0"),
        capture_output=True,
        text=True,
        timeout=HANG,
    )
    assert run.returncode == 1
    assert run.stderr == (
        "error: this worker has not joined a hub yet\nhint: create a token at the hub: shoal join-token create\n"
    )
