"""The certificate authority of servers that share a store is replaced in one directory and reaches all of them. The
real store is tested in `tests/replicas`; these tests cover every race on the way.
"""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

import pytest

from shoal.apiserver.certificates import Authority
from shoal.assemble.datadir import DataDir, DataDirError
from shoal.assemble.identity import AUTHORITY, FILES, NOTE, share_identity
from shoal.assemble.shared_authority import LOOK_SECONDS, SharedAuthority
from shoal.clock import FakeClock
from shoal.store.interface import StoreUnavailable
from tests.assemble.test_loops import until


class Notes:
    """Store metadata with etcd's semantics."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.away = False

    async def note(self, name: str) -> bytes | None:
        if self.away:
            raise StoreUnavailable("nobody there")
        return self.kept.get(name)

    async def keep_note(self, name: str, value: bytes) -> bytes:
        return self.kept.setdefault(name, value)

    async def change_note(self, name: str, value: bytes, before: bytes) -> bool:
        if self.kept.get(name) != before:
            return False
        self.kept[name] = value
        return True


class Hub:
    def __init__(self, path: Path, notes: Notes) -> None:
        self.directory, self.notes = DataDir(path), notes

    async def start(self) -> None:
        await share_identity(self.directory, self.notes)
        self.shared = SharedAuthority(self.directory.path, self.notes, FakeClock())

    def replace(self, certificate: bytes, key: bytes | None = None) -> None:
        if key is not None:
            (self.directory.path / "pki" / "ca.key").write_bytes(key)
        (self.directory.path / "pki" / "ca.crt").write_bytes(certificate)

    @property
    def files(self) -> dict[str, str]:
        return {name: (self.directory.path / name).read_text() for name in FILES}

    @property
    def certificate(self) -> bytes:
        return (self.directory.path / "pki" / "ca.crt").read_bytes()


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
async def hubs(tmp_path: Path, notes: Notes) -> list[Hub]:
    found = [Hub(tmp_path / name, notes) for name in ("a", "b")]
    for hub in found:
        await hub.start()
    return found


@pytest.fixture
def fresh(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "fresh")


def key_of(authority: Authority) -> bytes:
    return (authority.directory / "ca.key").read_bytes()


async def test_each_step_gets_to_the_other(hubs: list[Hub], fresh: Authority) -> None:
    a, b = hubs
    old = a.certificate
    assert b.certificate == old
    for giving, taking, certificate, key in (
        (a, b, old + fresh.certificate, None),
        (b, a, fresh.certificate + old, key_of(fresh)),
        (a, b, fresh.certificate, None),
    ):
        giving.replace(certificate, key)
        await giving.shared.look()
        await taking.shared.look()
        assert taking.certificate == certificate
        assert taking.files == giving.files
        await giving.shared.look()
        assert giving.certificate == certificate
    for hub in hubs:
        Authority(hub.directory.path / "pki").issue_client("ada")


async def test_a_key_without_its_certificate_is_not_handed_on(
    hubs: list[Hub], fresh: Authority, notes: Notes, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = hubs
    before, old = dict(notes.kept), a.certificate
    a.replace(old, key_of(fresh))
    await a.shared.look()
    assert notes.kept == before
    assert "is not the key of its ca.crt; the other servers are not given pki/ca.key and pki/ca.crt" in caplog.text
    a.replace(fresh.certificate + old)
    await a.shared.look()
    await b.shared.look()
    assert b.certificate == fresh.certificate + old


async def test_of_two_changes_the_first_stands(
    hubs: list[Hub], fresh: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = hubs
    old = a.certificate
    a.replace(old + fresh.certificate)
    b.replace(fresh.certificate + old, key_of(fresh))
    await a.shared.look()
    await b.shared.look()
    assert a.certificate == b.certificate == old + fresh.certificate
    assert a.files == b.files
    assert "was replaced here and elsewhere" in caplog.text


async def test_who_was_away_takes_what_there_is(
    hubs: list[Hub], fresh: Authority, notes: Notes, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = hubs
    a.replace(fresh.certificate, key_of(fresh))
    await a.shared.look()
    await b.start()
    assert b.files == a.files
    assert "was replaced meanwhile" in caplog.text


@pytest.mark.parametrize("name", [name for name in FILES if name not in AUTHORITY])
async def test_who_has_another_token_or_key_is_refused_and_gives_nothing(
    hubs: list[Hub], notes: Notes, name: str
) -> None:
    a, _ = hubs
    before = dict(notes.kept)
    (a.directory.path / name).write_text("another")
    await a.shared.look()
    assert notes.kept == before
    with pytest.raises(DataDirError, match="are not those of the servers that share this store"):
        await a.start()


async def test_a_store_that_is_away_is_asked_again(
    hubs: list[Hub], fresh: Authority, notes: Notes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    a, _ = hubs
    clock = FakeClock()
    shared = SharedAuthority(a.directory.path, notes, clock)
    running = asyncio.create_task(shared.run())
    notes.away = True
    await until(lambda: "was not looked at: nobody there" in caplog.text, lambda: clock.step(LOOK_SECONDS))
    notes.away = False
    a.replace(a.certificate + fresh.certificate)
    given = a.files
    await until(lambda: json.loads(notes.kept[NOTE]) == given, lambda: clock.step(LOOK_SECONDS))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
