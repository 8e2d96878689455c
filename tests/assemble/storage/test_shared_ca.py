"""The certificate authority of servers that share a store is replaced in one directory and reaches all of them. The
real store is tested in `tests/replicas`; these tests cover every race on the way.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.apiserver.pki.ca import CertificateAuthority
from shoal.apiserver.pki.ca_rotation import begin_rotation, finish_rotation
from shoal.assemble.storage.datadir import DataDir, DataDirError
from shoal.assemble.storage.identity import CA_FILES, IDENTITY_METADATA, KEY_FILES, share_identity
from shoal.assemble.storage.shared_ca import SYNC_SECONDS, SharedCA
from shoal.clock import FakeClock
from shoal.store.interface import StoreUnavailable


async def wait_until(done: Callable[[], bool], step: Callable[[], None]) -> None:
    async with asyncio.timeout(30):
        while not done():
            step()
            await asyncio.sleep(0.001)


class FakeStoreMetadata:
    """Store metadata with etcd's semantics."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.away = False

    async def get_metadata(self, name: str) -> bytes | None:
        if self.away:
            raise StoreUnavailable("nobody there")
        return self.kept.get(name)

    async def put_metadata_if_absent(self, name: str, value: bytes) -> bytes:
        return self.kept.setdefault(name, value)

    async def compare_and_swap_metadata(self, name: str, value: bytes, before: bytes) -> bool:
        if self.kept.get(name) != before:
            return False
        self.kept[name] = value
        return True


class FakeHub:
    def __init__(self, path: Path, notes: FakeStoreMetadata) -> None:
        self.directory, self.notes = DataDir(path), notes

    async def start(self) -> None:
        await share_identity(self.directory, self.notes)
        self.shared = SharedCA(self.directory.path, self.notes, FakeClock())

    def replace(self, certificate: bytes, key: bytes | None = None) -> None:
        if key is not None:
            (self.directory.path / "pki" / "ca.key").write_bytes(key)
        (self.directory.path / "pki" / "ca.crt").write_bytes(certificate)

    @property
    def files(self) -> dict[str, str]:
        return {name: (self.directory.path / name).read_text() for name in (*CA_FILES, *KEY_FILES)}

    @property
    def certificate(self) -> bytes:
        return (self.directory.path / "pki" / "ca.crt").read_bytes()


@pytest.fixture
def notes() -> FakeStoreMetadata:
    return FakeStoreMetadata()


@pytest.fixture
async def hubs(tmp_path: Path, notes: FakeStoreMetadata) -> list[FakeHub]:
    found = [FakeHub(tmp_path / name, notes) for name in ("a", "b")]
    for hub in found:
        await hub.start()
    return found


@pytest.fixture
def fresh(tmp_path: Path) -> CertificateAuthority:
    return CertificateAuthority(tmp_path / "fresh")


def key_of(authority: CertificateAuthority) -> bytes:
    return (authority.directory / "ca.key").read_bytes()


async def test_each_step_gets_to_the_other(hubs: list[FakeHub], fresh: CertificateAuthority) -> None:
    a, b = hubs
    old = a.certificate
    assert b.certificate == old
    for giving, taking, certificate, key in (
        (a, b, old + fresh.certificate, None),
        (b, a, fresh.certificate + old, key_of(fresh)),
        (a, b, fresh.certificate, None),
    ):
        giving.replace(certificate, key)
        await giving.shared.sync()
        await taking.shared.sync()
        assert taking.certificate == certificate
        assert taking.files == giving.files
        await giving.shared.sync()
        assert giving.certificate == certificate
    for hub in hubs:
        CertificateAuthority(hub.directory.path / "pki").check_usable()


async def test_a_key_without_its_certificate_is_not_handed_on(
    hubs: list[FakeHub], fresh: CertificateAuthority, notes: FakeStoreMetadata, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = hubs
    before, old = dict(notes.kept), a.certificate
    a.replace(old, key_of(fresh))
    await a.shared.sync()
    assert notes.kept == before
    assert "does not match ca.crt; not sharing pki/ca.key and pki/ca.crt with the other servers" in caplog.text
    a.replace(fresh.certificate + old)
    await a.shared.sync()
    await b.shared.sync()
    assert b.certificate == fresh.certificate + old


async def test_of_two_changes_the_first_stands(
    hubs: list[FakeHub], fresh: CertificateAuthority, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = hubs
    old = a.certificate
    a.replace(old + fresh.certificate)
    b.replace(fresh.certificate + old, key_of(fresh))
    await a.shared.sync()
    await b.shared.sync()
    assert a.certificate == b.certificate == old + fresh.certificate
    assert a.files == b.files
    assert "was replaced here and by another server" in caplog.text


async def test_who_was_away_takes_what_there_is(
    hubs: list[FakeHub], fresh: CertificateAuthority, notes: FakeStoreMetadata, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = hubs
    a.replace(fresh.certificate, key_of(fresh))
    await a.shared.sync()
    await b.start()
    assert b.files == a.files
    assert "authority was replaced" in caplog.text


@pytest.mark.parametrize("name", KEY_FILES)
async def test_who_has_another_token_or_key_is_refused_and_gives_nothing(
    hubs: list[FakeHub], notes: FakeStoreMetadata, name: str
) -> None:
    a, _ = hubs
    before = dict(notes.kept)
    (a.directory.path / name).write_text("another")
    await a.shared.sync()
    assert notes.kept == before
    with pytest.raises(DataDirError, match="differ from those of the servers that share this store"):
        await a.start()


async def test_a_store_that_is_away_is_asked_again(
    hubs: list[FakeHub], fresh: CertificateAuthority, notes: FakeStoreMetadata, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    a, _ = hubs
    clock = FakeClock()
    shared = SharedCA(a.directory.path, notes, clock)
    running = asyncio.create_task(shared.run())
    notes.away = True
    await wait_until(lambda: "certificate authority: nobody there" in caplog.text, lambda: clock.step(SYNC_SECONDS))
    notes.away = False
    a.replace(a.certificate + fresh.certificate)
    given = a.files
    await wait_until(lambda: json.loads(notes.kept[IDENTITY_METADATA]) == given, lambda: clock.step(SYNC_SECONDS))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_rotation_reaches_all_servers(hubs: list[FakeHub]) -> None:
    """With the cross certificate, by which each of them is verified by clients of the former authority."""
    first, second = hubs[:2]
    former = first.certificate
    cross = second.directory.path / "pki" / "cross.crt"
    begin_rotation(CertificateAuthority(first.directory.path / "pki"), FakeClock())
    for _ in range(2):
        for hub in (first, second):
            await hub.shared.sync()
    assert first.files == second.files
    assert second.certificate.endswith(former)
    assert cross.read_bytes() == (first.directory.path / "pki" / "cross.crt").read_bytes()
    authority = CertificateAuthority(first.directory.path / "pki")
    authority.ensure_serving_certificate(["localhost"])
    finish_rotation(CertificateAuthority(second.directory.path / "pki"))
    for _ in range(2):
        for hub in (second, first):
            await hub.shared.sync()
    assert first.files == second.files
    assert former not in first.certificate
    assert not (first.directory.path / "pki" / "cross.crt").exists()
    assert authority.ensure_serving_certificate(["localhost"]), "the chain with the cross certificate is replaced"
    assert (authority.directory / "serving.pem").read_text().count("BEGIN CERTIFICATE") == 1
