"""Commands about this machine: doctor, reset, logs of processes, and the progress line."""

from __future__ import annotations

import base64
import fcntl
import io
import os
from pathlib import Path
from typing import Any

import pytest

from shoal.apiserver.pki.ca import CertificateAuthority
from shoal.assemble.commands import doctor
from shoal.assemble.commands.doctor import FAIL, OK, WARN, CheckResult, engine_results
from shoal.assemble.storage.datadir import DataDir
from shoal.cli import logs, progress
from shoal.cli.doctor import result_lines
from shoal.cli.progress import ProgressLine
from tests.certificates import issue_client, signer_in
from tests.cli.conftest import Run, found, said

# --- doctor ---


@pytest.mark.parametrize(
    ("line", "state", "words"),
    [
        (doctor.check_python((3, 10, 1)), FAIL, "3.10.1"),
        (doctor.check_python((3, 12, 0)), OK, "3.12.0, shoal "),
        (doctor.check_etcd(None), OK, "not installed; only needed"),
        (doctor.check_etcd("3.4.30"), WARN, "3.4.30"),
        (doctor.check_etcd("3.6.1"), OK, "3.6.1"),
        (doctor.check_disk(1 << 20, Path("/x")), FAIL, "1 MB free in /x"),
        (doctor.check_disk(1 << 30, Path("/x")), WARN, "1024 MB free in /x"),
        (doctor.check_disk(1 << 40, Path("/x")), OK, "1048576 MB free in /x"),
        (doctor.check_open_files(256), WARN, "at most 256"),
        (doctor.check_open_files(-1), OK, "no limit"),
        (doctor.check_clock(0.4), OK, "in sync with the hub"),
        (doctor.check_clock(-10), WARN, "10 s behind the hub's"),
        (doctor.check_clock(3600), FAIL, "3600 s ahead of the hub's"),
        (doctor.check_hub_version("v1.33.0"), WARN, "v1.33.0, not a Shoal server"),
        (doctor.check_hub_version("v1.36.4+shoal-99"), WARN, "v1.36.4+shoal-99, but this is shoal "),
    ],
)
def test_what_is_made_of_what_is_measured(line: CheckResult, state: str, words: str) -> None:
    assert line.state == state
    assert line.said.startswith(words)
    assert bool(line.hint) == (state != OK)


def test_one_engine_is_enough() -> None:
    good, bad = CheckResult("podman", OK, "5"), CheckResult("docker", WARN, "no daemon", "start it")
    assert engine_results([bad, good]) == [good]
    assert engine_results([bad]) == [bad]
    assert [line.name for line in engine_results([])] == ["engine"]


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with nothing on it but a docker without its daemon."""
    (tmp_path / "docker").write_text("#!/bin/sh\necho 'Cannot connect' >&2\nexit 1\n")
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("SHELL", "/bin/sh")
    return tmp_path


def test_a_bare_machine(bare: Path, run: Run) -> None:
    lines = found(run("doctor", "-o", "json", "--data-dir", str(bare / "data")))
    assert isinstance(lines, list)
    states = {line["name"]: (line["state"], line["said"]) for line in lines}
    assert states["docker"] == (WARN, "Cannot connect")
    assert (states["kubectl"], states["kind"]) == ((WARN, "not installed"), (WARN, "not installed"))
    assert states["data dir"] == (OK, f"{bare}/data does not exist yet")
    assert states["hub"] == (WARN, "no kubeconfig in the data directory")
    assert not (bare / "data").exists()


def test_the_hub_and_its_clock(bare: Path, run: Run) -> None:
    lines = said(run("doctor", "--data-dir", str(bare), "--kubeconfig", os.environ["SHOAL_KUBECONFIG"])).splitlines()
    assert any(line.startswith("ok    hub ") for line in lines)
    assert any(line.split() == ["ok", "clock", "in", "sync", "with", "the", "hub"] for line in lines)


def test_a_failure_is_the_exit_code(bare: Path, run: Run) -> None:
    (bare / "format").write_text("99\n")
    result = run("doctor", "--data-dir", str(bare))
    assert result.exit_code == 1
    assert f"fail  data dir    {bare} has data format '99'" in result.stdout
    assert result_lines([CheckResult("a", FAIL, "b", "c")]) == ["fail  a  b", "         hint: c"]


def test_a_directory_in_use_is_told_with_its_process(bare: Path, run: Run) -> None:
    directory = DataDir(bare / "data")
    directory.save_port(7443)
    lines = said(run("doctor", "--data-dir", str(bare / "data"))).splitlines()
    directory.close()
    assert any(line.endswith(f"in use by process {os.getpid()}") for line in lines)
    assert any(line.endswith("7443, used by the running server") for line in lines)


# --- reset ---


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with a worker's in it, which nobody uses."""
    DataDir(tmp_path / "data" / "workers" / "w").close()
    DataDir(tmp_path / "data").close()
    (tmp_path / "data" / "pki").mkdir()
    (tmp_path / "data" / "pki" / "ca.key").write_text("secret")
    return tmp_path / "data"


def test_reset_says_before_it_does(data: Path, run: Run) -> None:
    result = run("reset", "--data-dir", str(data))
    assert str(result.exception) == f"{data} (0.0 MB, with the workers w) would be removed permanently"
    assert (data / "pki" / "ca.key").exists()
    assert said(run("reset", "--data-dir", str(data), "--yes")) == ""
    assert not data.exists()


@pytest.mark.parametrize("where", ["", "workers/w"])
def test_what_is_in_use_is_not_removed(data: Path, run: Run, where: str) -> None:
    held = DataDir(data / where)
    result = run("reset", "--data-dir", str(data), "--yes")
    held.close()
    assert str(result.exception) == f"{data / where} is in use by the shoal process {os.getpid()}"
    assert (data / "pki" / "ca.key").read_text() == "secret"


def test_what_is_no_data_directory_is_not_removed(data: Path, run: Run) -> None:
    link = data.parent / "link"
    link.symlink_to(data)
    other = data.parent / "other"
    other.mkdir()
    (other / "mine").touch()
    assert str(run("reset", "--data-dir", str(link), "--yes").exception) == f"{link} is a symbolic link"
    refused = run("reset", "--data-dir", str(other), "--yes").exception
    assert str(refused) == f"{other} is not a Shoal data directory"
    missing = run("reset", "--data-dir", str(data / "none"), "--yes").exception
    assert str(missing) == f"there is no data directory {data / 'none'}"
    assert (other / "mine").exists()
    assert (data / "format").exists()


def test_a_link_in_it_is_removed_and_not_followed(data: Path, run: Run) -> None:
    kept = data.parent / "kept"
    kept.mkdir()
    (kept / "file").touch()
    (data / "away").symlink_to(kept)
    said(run("reset", "--data-dir", str(data), "--yes"))
    assert (kept / "file").exists()


def test_what_a_cut_removal_leaves_can_be_removed(data: Path, run: Run) -> None:
    (data / "lock").unlink()
    (data / "pki" / "ca.key").unlink()
    said(run("reset", "--data-dir", str(data), "--yes"))
    assert not data.exists()


def test_looking_for_the_holder_does_not_lock(data: Path) -> None:
    assert doctor.lock_holder(data) == ""
    with (data / "lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


# --- logs of processes ---


@pytest.fixture
def log(data: Path) -> Path:
    (data / "workers" / "w" / "worker.log").write_text("one\ntwo\nthree\n")
    (data / "etcd").mkdir()
    (data / "etcd" / "etcd.log").write_text("etcd says\n")
    return data / "workers" / "w" / "worker.log"


def test_logs_by_name(data: Path, log: Path, run: Run) -> None:
    listed = [row.split() for row in said(run("logs", "--data-dir", str(data))).splitlines()]
    assert listed == [["LOG", "FILE"], ["w", str(log)], ["etcd", str(data / "etcd" / "etcd.log")]]
    assert said(run("logs", "w", "--data-dir", str(data))) == "one\ntwo\nthree\n"
    assert said(run("logs", "w", "--tail", "1", "--data-dir", str(data))) == "three\n"
    assert said(run("logs", "w", "--tail", "0", "--data-dir", str(data))) == ""
    missing = run("logs", "x", "--data-dir", str(data)).exception
    assert str(missing) == "there is no log x"
    assert getattr(missing, "hint", "").startswith("existing logs: w, etcd; ")


def test_a_log_is_followed_through_a_restart(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "POLL_SECONDS", 0.001)
    following = logs.read_log(log, 0, follow=True)

    assert next(following) == ""
    with log.open("a") as file:
        file.write("four\n")
    assert next(following) == "four\n"
    log.replace(log.with_suffix(".log.1"))
    log.write_text("anew\n")
    assert next(following) == "anew\n"


# --- progress ---


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "DELAY_SECONDS", 0.0)
    monkeypatch.setattr(progress, "STEP_SECONDS", 0.001)


@pytest.mark.usefixtures("hasty")
def test_a_long_wait_is_shown_and_wiped() -> None:
    screen = Screen()
    shown = ProgressLine("waiting", screen)
    while "waiting /" not in screen.getvalue():
        pass
    shown.finish()
    assert screen.getvalue().endswith("\r\x1b[K")


@pytest.mark.usefixtures("hasty")
def test_nobody_looks_or_nothing_to_say() -> None:
    for screen, doing in ((io.StringIO(), "waiting"), (Screen(), "")):
        ProgressLine(doing, screen).finish()
        assert screen.getvalue() == ""


def test_certificates_that_a_former_authority_gave_to_tenants_are_listed(tmp_path: Path) -> None:
    former, other = (CertificateAuthority(tmp_path / name) for name in ("former", "other"))

    def request(name: str, authority: CertificateAuthority) -> dict[str, Any]:
        issued = authority.issue_serving(["hub.example.com", "10.0.0.9"], 3600.0).certificate
        metadata = {"name": name, "annotations": {"shoal.dev/cluster": "default.east"}}
        return {"metadata": metadata, "status": {"certificate": base64.b64encode(issued).decode()}}

    client = issue_client(signer_in(former.directory), "ann").certificate
    signed = {"metadata": {"name": "ann"}, "status": {"certificate": base64.b64encode(client).decode()}}
    pending = {"metadata": {"name": "pending"}}
    lines = doctor.check_former_ca(
        former.certificate, [request("evil", former), request("fine", other), signed, pending]
    )
    assert [line.said for line in lines] == [
        "kubeconfigs from before the upgrade are still accepted",
        "request evil of cluster default.east got a certificate for hub.example.com, 10.0.0.9",
    ]
