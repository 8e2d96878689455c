"""Processes and their etcd: what a server says that may not start, and the local etcd that starts and ends with it."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shoal.apiserver.pki.ca import CertificateAuthority
from tests.etcd import Etcd, client_files, guarded_etcd, running_etcd
from tests.faults.processes import HANG, Up
from tests.real.hubs import flags, hub, refused, short_directory, with_etcd_on_path
from tests.serving import config_map

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def etcd() -> Iterator[Etcd]:
    with running_etcd() as etcd:
        yield etcd


@pytest.fixture
def own_etcd() -> Iterator[Etcd]:
    """One that the test may break."""
    with running_etcd() as etcd:
        yield etcd


def store_id(data: Path) -> str:
    return (data / "store-id").read_text().strip()


def eventually(check: Callable[[], bool]) -> None:
    end = time.monotonic() + HANG
    while not check():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.02)


# --- who may not start ---


def test_wrong_certificates(tmp_path: Path) -> None:
    with guarded_etcd(tmp_path) as (etcd, authority):
        stranger = CertificateAuthority(tmp_path / "stranger")
        (tmp_path / "other").mkdir()
        ours, theirs = client_files(authority, tmp_path), client_files(stranger, tmp_path / "other")
        trusted, foreign = str(authority.directory / "ca.crt"), str(stranger.directory / "ca.crt")

        def start(ca: str, files: dict[str, Path]) -> tuple[int, str]:
            keys = [f"--etcd-{name.replace('_', '')}={file}" for name, file in files.items()]
            return refused(tmp_path / "data", "--etcd-servers", etcd.endpoint, "--etcd-cafile", ca, *keys)

        where = f"error: etcd at {etcd.endpoint} cannot be reached: "
        assert start(foreign, ours) == (
            1,
            f"{where}its certificate is not signed by the authority in --etcd-cafile, or is for another name\n",
        )
        for files in (theirs, {}):
            code, said = start(trusted, files)
            assert code == 1
            assert said.startswith(where)
            assert "--etcd-certfile" in said
            assert said.count("\n") == 1
        missing = tmp_path / "none.crt"
        assert start(str(missing), ours) == (1, f"error: --etcd-cafile {missing}: No such file or directory\n")

        flags = [f"--etcd-{name.replace('_', '')}={file}" for name, file in ours.items()]
        up = Up(tmp_path / "data", "--etcd-servers", etcd.endpoint, "--etcd-cafile", trusted, *flags, verb="hub")
        assert up.client().request("GET", "/version")
        up.close()


def test_a_prefix_that_is_not_that_of_the_data_directory(etcd: Etcd, tmp_path: Path) -> None:
    hub(tmp_path / "data", etcd, "/right").close()
    known = store_id(tmp_path / "data")
    hint = (
        "hint: check --etcd-servers and --etcd-prefix ({}), or restore etcd from a snapshot; "
        "to begin with an empty store give another --data-dir\n"
    )
    where = f"error: etcd at {etcd.endpoint}: "
    code, said = refused(tmp_path / "data", *flags(etcd, "/wrong"))
    assert code == 1
    absent = f"{where}there is no Shoal store below /wrong/, but this server served {known}\n"
    assert said == absent + hint.format("/wrong")
    hub(tmp_path / "other", etcd, "/other").close()
    code, said = refused(tmp_path / "data", *flags(etcd, "/other"))
    assert code == 1
    another = f"{where}the store below /other/ is {store_id(tmp_path / 'other')}, but this server served {known}\n"
    assert said == another + hint.format("/other")
    hub(tmp_path / "data", etcd, "/right").close()
    assert store_id(tmp_path / "data") == known


def test_other_keys_on_the_same_prefix(etcd: Etcd, tmp_path: Path) -> None:
    hub(tmp_path / "first", etcd, "/keys").close()
    other = tmp_path / "other"
    hub(other, etcd, "/keys-of-others").close()
    (other / "store-id").unlink()
    code, said = refused(other, *flags(etcd, "/keys"))
    assert code == 1
    assert said == (
        f"error: the keys in {other} differ from those of the servers that share this store\n"
        "hint: give an empty --data-dir to use the keys in the store, or another --etcd-prefix\n"
    )
    # As the hint says: it is bound to no store yet.
    hub(other, etcd, "/keys-of-nobody").close()


def test_the_keys_of_another_program_and_an_etcd_that_is_away(own_etcd: Etcd, tmp_path: Path) -> None:
    hub(tmp_path / "first", own_etcd, "/a/b").close()
    code, said = refused(tmp_path / "data", *flags(own_etcd, "/a"))
    assert code == 1
    assert said == (
        "error: etcd holds keys of another program below /a/ (/a/b/notes/identity); give an unused --etcd-prefix\n"
    )
    own_etcd.stop()
    code, said = refused(tmp_path / "first", *flags(own_etcd, "/a/b"))
    assert code == 1
    assert said.startswith(f"error: etcd at {own_etcd.endpoint} cannot be reached: ")
    assert said.count("\n") == 1
    own_etcd.start()


def test_no_etcd_on_path(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    code, said = refused(tmp_path / "data", "--store", "etcd", environ={"PATH": str(tmp_path / "empty")})
    assert code == 1
    assert said == (
        "error: --store etcd: no etcd on PATH\n"
        "hint: install etcd 3.5.13 or newer, or give a running etcd with --etcd-servers\n"
    )


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("--store=sqlite --etcd-servers=http://x:2379", "--etcd-... flags require --store etcd"),
        ("--etcd-username=ada", "--etcd-... flags require --store etcd"),
        ("--etcd-servers=x:2379", "--etcd-servers x:2379: give URLs such as https://10.0.0.1:2379"),
        ("--etcd-servers=http://a:1,https://b:1", "--etcd-servers: either all URLs must be https:// or none"),
        ("--etcd-servers=https://a:1 --etcd-certfile=c", "--etcd-certfile and --etcd-keyfile require each other"),
        ("--etcd-servers=https://a:1 --etcd-username=u", "--etcd-username and --etcd-password-file require each other"),
        ("--store=etcd --etcd-cafile=c", "--etcd-servers is required: a local etcd uses no certificates and no user"),
        ("--etcd-servers=http://a:1 --etcd-prefix=/", "--etcd-prefix must not be empty"),
    ],
)
def test_flags_that_do_not_fit(tmp_path: Path, given: str, complaint: str) -> None:
    code, said = refused(tmp_path / "data", *given.split())
    assert code == 2
    assert said == f"error: {complaint}\nhint: shoal hub --help\n"
    assert not (tmp_path / "data").exists()


# --- etcd underneath ---


def test_a_wiped_etcd_ends_the_server_and_is_not_begun_anew(own_etcd: Etcd, tmp_path: Path) -> None:
    up = hub(tmp_path / "data", own_etcd, "/wiped")
    up.client().request("POST", MAPS, config_map("a"))
    own_etcd.stop()
    own_etcd.wipe()
    own_etcd.start()
    code, said = up.wait()
    known = store_id(tmp_path / "data")
    assert code == 1
    assert said.endswith(
        f"\nerror: etcd at {own_etcd.endpoint}: /wiped/ is empty now, this server served {known}\n"
        "hint: restore etcd from a snapshot, then restart the server\n"
    )
    assert "Traceback" not in said
    up.close()
    code, said = refused(tmp_path / "data", *flags(own_etcd, "/wiped"))
    assert (code, said.splitlines()[0]) == (
        1,
        f"error: etcd at {own_etcd.endpoint}: there is no Shoal store below /wiped/, but this server served {known}",
    )


def test_a_restarted_etcd_is_waited_for(own_etcd: Etcd, tmp_path: Path) -> None:
    up = hub(tmp_path / "data", own_etcd, "/restarted")
    client = up.client()
    made = [client.request("POST", MAPS, config_map("before"))]
    watched = up.client().watch(f"{MAPS}?watch=1&resourceVersion={made[0]['metadata']['resourceVersion']}")
    for n, number in enumerate((signal.SIGTERM, signal.SIGKILL)):
        own_etcd.stop(number)
        starting = threading.Timer(0.5, own_etcd.start)
        starting.start()
        made.append(client.request("POST", MAPS, config_map(f"after-{n}")))
        starting.join()
        assert next(watched) == {"type": "ADDED", "object": made[-1]}
    assert client.request("GET", f"{MAPS}/before") == made[0]
    code, said = up.terminate()
    assert code == 0
    assert "Traceback" not in said
    up.close()


# --- the local one ---


@pytest.fixture
def data() -> Iterator[Path]:
    with short_directory() as directory:
        yield directory / "data"


def local(data: Path) -> Up:
    return Up(data, "--store", "etcd", environ=with_etcd_on_path())


def etcd_pid(data: Path) -> int:
    return int((data / "etcd" / "pid").read_text())


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_local_etcd_ends_with_its_server(data: Path) -> None:
    up = local(data)
    try:
        pid = etcd_pid(data)
        assert runs(pid)
        assert (data / "etcd").stat().st_mode & 0o777 == 0o700
        up.client().request("POST", MAPS, config_map("a"))
        assert up.terminate() == (0, "stopping\n")
        assert not runs(pid)
        assert not (data / "etcd" / "pid").exists()
    finally:
        up.close()


def test_a_killed_server_leaves_its_data_and_no_etcd(data: Path) -> None:
    up = local(data)
    try:
        pid = etcd_pid(data)
        made = up.client().request("POST", MAPS, config_map("a"))
        up.close()
        eventually(lambda: not runs(pid))
        up = local(data)
        assert up.client().request("GET", f"{MAPS}/a") == made
        assert etcd_pid(data) != pid
        # One that does not notice the end of its parent is ended by the next start.
        pid = etcd_pid(data)
        os.kill(pid, signal.SIGSTOP)
        up.close()
        assert runs(pid)
        waking = threading.Timer(1, os.kill, (pid, signal.SIGCONT))
        waking.start()
        up = local(data)
        waking.join()
        assert not runs(pid)
        assert up.client().request("GET", f"{MAPS}/a") == made
    finally:
        up.close()
    pid = etcd_pid(data)
    eventually(lambda: not runs(pid))


def test_a_local_etcd_that_dies_is_started_again(data: Path) -> None:
    up = local(data)
    try:
        client = up.client()
        before = client.request("POST", MAPS, config_map("before"))
        watched = up.client().watch(f"{MAPS}?watch=1&resourceVersion={before['metadata']['resourceVersion']}")
        for n in range(2):
            pid = etcd_pid(data)
            os.kill(pid, signal.SIGKILL)
            made = client.request("POST", MAPS, config_map(f"after-{n}"))
            assert next(watched) == {"type": "ADDED", "object": made}
            assert etcd_pid(data) != pid
        assert client.request("GET", f"{MAPS}/before") == before
        pid = etcd_pid(data)
        code, said = up.terminate()
        assert code == 0
        assert f"etcd exited with -9; restarting it (log: {data / 'etcd' / 'etcd.log'})\n" in said
        assert not runs(pid)
    finally:
        up.close()


def test_a_local_etcd_without_its_data_is_not_begun_anew(data: Path) -> None:
    up = local(data)
    assert up.terminate()[0] == 0
    up.close()
    known = store_id(data)
    shutil.rmtree(data / "etcd")
    code, said = refused(data, "--store", "etcd", environ=with_etcd_on_path())
    assert code == 1
    assert f"there is no Shoal store below /shoal/, but this server served {known}\nhint: " in said
    assert not (data / "etcd" / "pid").exists()
    code, said = refused(data)
    assert code == 1
    assert said.startswith(f"error: {data} belongs to store {known}, but shoal.db is missing\nhint: ")
