"""Tests of the etcd store only: several servers on one store, lost connections, restarts, and errors of etcd."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aetcd.rpc as rpc
import grpc
import pytest

from shoal.apiserver.pki.ca import CertificateAuthority
from shoal.objects.errors import StoreError
from shoal.store.etcd import EtcdSettings, EtcdStore, claim
from shoal.store.etcd.connection import TransientError
from shoal.store.interface import CompareFailed, StoreFormatError, StoreLost, StoreUnavailable, ValueTooLarge
from tests.etcd import Etcd, client_files, guarded_etcd, running_etcd
from tests.store.contract import WatchRecorder, read_state


@asynccontextmanager
async def open_etcd_store(settings: EtcdSettings, known: str = "") -> AsyncIterator[EtcdStore]:
    store = await EtcdStore.open(settings, known)
    try:
        yield store
    finally:
        await store.close()


async def open_error(settings: EtcdSettings, known: str = "") -> StoreError:
    with pytest.raises(StoreError) as failed:
        await EtcdStore.open(settings, known)
    return failed.value


@pytest.fixture
def own_etcd() -> Iterator[Etcd]:
    """An etcd that the test may break."""
    with running_etcd() as etcd:
        yield etcd


# --- several servers ---


async def test_what_one_writes_the_other_delivers_in_order(etcd: Etcd) -> None:
    settings = etcd.settings()
    async with open_etcd_store(settings) as a, open_etcd_store(settings) as b:
        assert a.id == b.id
        seen = WatchRecorder()
        a.watch(a.revision, seen)
        revisions = []
        for n in range(50):
            revisions.append(await (a, b)[n % 2].put(f"/{n}", b"%d" % n, 0))
        await seen.wait_for_revision(revisions[-1])
        assert [event.revision for event in seen.events] == revisions == sorted(revisions)


async def test_compares_hold_between_servers(etcd: Etcd) -> None:
    settings = etcd.settings()
    async with open_etcd_store(settings) as a, open_etcd_store(settings) as b:
        revision = await a.put("/n", b"0", 0)
        wins = [0, 0]

        async def add(index: int, store: EtcdStore) -> None:
            while sum(wins) < 40:
                found = await store.get("/n")
                assert found is not None
                try:
                    await store.put("/n", b"%d" % (int(found.value) + 1), found.revision)
                except CompareFailed:
                    continue
                wins[index] += 1

        await asyncio.gather(add(0, a), add(1, b))
        found = await a.get("/n")
        assert found is not None
        assert int(found.value) == sum(wins)
        assert found.revision >= revision + sum(wins)


async def test_fresh_waits_for_what_the_other_has_acknowledged(etcd: Etcd) -> None:
    settings = etcd.settings()
    async with open_etcd_store(settings) as a, open_etcd_store(settings) as b:
        for n in range(50):
            revision = await b.put(f"/{n}", b"v", 0)
            fresh = a.read_index()
            assert fresh is not None
            await fresh
            assert a.revision >= revision


async def test_fresh_does_not_wait_for_the_writes_of_other_programs(etcd: Etcd) -> None:
    async with open_etcd_store(etcd.settings()) as store, open_etcd_store(etcd.settings()) as other:
        advanced: list[int] = []
        store.watch(store.revision, WatchRecorder(), advanced.append)
        revision = await other.put("/elsewhere", b"v", 0)
        fresh = store.read_index()
        assert fresh is not None
        async with asyncio.timeout(30):
            await fresh
        assert store.revision >= revision
        assert advanced[-1] >= revision


async def test_fresh_reads_no_key(etcd: Etcd) -> None:
    async with open_etcd_store(etcd.settings()) as store:
        await asyncio.gather(*(store.put(f"/{n}", b"v", 0) for n in range(20)))
        before = store.keys_read
        for _ in range(20):
            fresh = store.read_index()
            assert fresh is not None
            await fresh
        assert store.keys_read == before


async def test_many_who_ask_together_are_asked_for_once(etcd: Etcd) -> None:
    async with open_etcd_store(etcd.settings()) as store:
        before = etcd.metric("etcd_debugging_mvcc_range_total")
        asked = [store.read_index() for _ in range(500)]
        await asyncio.gather(*(one for one in asked if one is not None))
        assert etcd.metric("etcd_debugging_mvcc_range_total") - before < 10


async def test_an_exclusive_store_is_always_fresh(etcd: Etcd) -> None:
    async with open_etcd_store(replace(etcd.settings(), exclusive=True)) as store:
        assert store.read_index() is None


async def test_one_compacts_and_the_other_is_content(etcd: Etcd) -> None:
    settings = etcd.settings()
    async with open_etcd_store(settings) as a, open_etcd_store(settings) as b:
        for n in range(10):
            revision = await a.put(f"/{n}", b"v", 0)
        fresh = b.read_index()
        assert fresh is not None
        await fresh
        await asyncio.gather(a.compact(revision), b.compact(revision))
        assert a.compacted_revision == b.compacted_revision == revision
        await b.put("/more", b"v", 0)
        await a.compact(revision + 1)
        await b.compact(revision + 1)
    async with open_etcd_store(settings) as c:
        assert c.compacted_revision == revision + 1
        assert len(await read_state(c)) == 11


async def test_what_others_write_during_a_look_at_the_claim_is_no_way_back(
    etcd: Etcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server looks at it once soon after its start, if history was compacted."""
    settings = etcd.settings()
    async with open_etcd_store(settings) as a, open_etcd_store(settings) as b:
        call = a._connection.call

        async def overtaken(method: Any, request: Any) -> Any:
            answer = await call(method, request)
            await a._live_watch.wait_for_revision(await b.put("/faster", b"v", 0))
            return answer

        monkeypatch.setattr(a._connection, "call", overtaken)
        await a._check_same_store()
        assert not a.failure.done()


async def test_notes_are_kept_once(etcd: Etcd) -> None:
    settings = etcd.settings()
    async with open_etcd_store(settings) as a, open_etcd_store(settings) as b:
        assert await a.get_metadata("keys") is None
        assert await a.put_metadata_if_absent("keys", b"a") == b"a"
        assert await b.put_metadata_if_absent("keys", b"b") == b"a"
        assert not await b.compare_and_swap_metadata("keys", b"b", b"c")
        assert not await b.compare_and_swap_metadata("none", b"b", b"a")
        assert await b.compare_and_swap_metadata("keys", b"b", b"a")
        assert await a.get_metadata("keys") == b"b"
        assert await read_state(a) == {}


# --- cuts ---


async def test_acknowledged_writes_survive_a_kill_and_work_goes_on(own_etcd: Etcd) -> None:
    async with open_etcd_store(own_etcd.settings()) as store:
        seen = WatchRecorder()
        store.watch(store.revision, seen)
        acknowledged: dict[str, int] = {}

        async def write(name: str) -> None:
            for n in range(60):
                acknowledged[f"/{name}/{n}"] = await store.put(f"/{name}/{n}", b"%d" % n, 0)

        writers = [asyncio.ensure_future(write(name)) for name in "abcd"]
        await asyncio.sleep(0.05)
        own_etcd.stop()
        await asyncio.sleep(0.2)
        own_etcd.start()
        async with asyncio.timeout(60):
            await asyncio.gather(*writers)
        found, _ = await store.range("")
        assert {item.key: item.revision for item in found} == acknowledged
        await seen.wait_for_revision(max(acknowledged.values()))
        assert {event.key: event.revision for event in seen.events} == acknowledged
        assert [event.revision for event in seen.events] == sorted(acknowledged.values())


@pytest.mark.parametrize("deleted", [False, True])
async def test_a_write_whose_answer_was_lost_is_found_to_be_done(
    etcd: Etcd, monkeypatch: pytest.MonkeyPatch, deleted: bool
) -> None:
    async with open_etcd_store(etcd.settings()) as store, open_etcd_store(etcd.settings()) as other:
        first = await store.put("/n", b"1", 0)
        once = store._connection.call_once

        async def cut(method: Any, request: Any) -> Any:
            monkeypatch.undo()
            await once(method, request)
            # etcd's revision is beyond that of the write: nothing of ours will tell how far it is.
            await other.put("/elsewhere", b"v", 0)
            raise TransientError("cut")

        monkeypatch.setattr(store._connection, "call_once", cut)
        async with asyncio.timeout(30):
            revision = await (store.delete("/n", first) if deleted else store.put("/n", b"2", first))
        found = await store.get("/n")
        assert (found is None) if deleted else (found is not None and found.revision == revision)


async def test_a_write_whose_answer_was_lost_is_no_conflict_when_somebody_has_written_since(
    etcd: Etcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = etcd.settings()
    async with open_etcd_store(settings) as a, open_etcd_store(settings) as b:
        first = await a.put("/n", b"1", 0)
        once = a._connection.call_once

        async def cut(method: Any, request: Any) -> Any:
            monkeypatch.undo()
            done = await once(method, request)
            await b.put("/n", b"3", int(done.header.revision))
            raise TransientError("cut")

        monkeypatch.setattr(a._connection, "call_once", cut)
        with pytest.raises(StoreUnavailable, match=r"^etcd did not answer in time, and /n has changed since"):
            await a.put("/n", b"2", first)
        assert await read_state(a) == {"/n": b"3"}


async def test_nothing_is_acknowledged_by_an_etcd_that_went_back(
    own_etcd: Etcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = own_etcd.settings()

    async def not_yet(self: EtcdStore) -> None:
        """The feed has not found out."""

    async with open_etcd_store(settings) as store:
        for n in range(20):
            await store.put(f"/{n}", b"v", 0)
        monkeypatch.setattr(store._live_watch, "_check_same_store", lambda: not_yet(store))
        own_etcd.stop()
        own_etcd.wipe()
        own_etcd.start()
        with pytest.raises(StoreUnavailable, match="went back from revision"):
            await store.put("/more", b"v", 0)
        fresh = store.read_index()
        assert fresh is not None
        with pytest.raises(StoreUnavailable, match="went back from revision"):
            await fresh


async def test_an_etcd_that_has_just_been_started_is_waited_for(own_etcd: Etcd) -> None:
    own_etcd.pause()
    asyncio.get_running_loop().call_later(1.5, own_etcd.resume)
    async with open_etcd_store(own_etcd.settings()) as store:
        assert await store.put("/a", b"v", 0) > 0


async def test_the_next_member_is_taken_when_one_is_away(etcd: Etcd, own_etcd: Etcd) -> None:
    own_etcd.stop()
    settings = etcd.settings()
    async with open_etcd_store(replace(settings, endpoints=(own_etcd.endpoint, etcd.endpoint))) as store:
        assert await store.put("/a", b"v", 0) > 0


async def test_a_store_that_cannot_be_reached_says_so(own_etcd: Etcd, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = own_etcd.settings()
    async with open_etcd_store(settings) as store:
        own_etcd.stop()
        monkeypatch.setattr("shoal.store.etcd.connection.RETRY_TIMEOUT_SECONDS", 0.3)
        with pytest.raises(StoreUnavailable, match=f"^etcd at {own_etcd.endpoint} cannot be reached: "):
            await store.put("/a", b"v", 0)
        fresh = store.read_index()
        assert fresh is not None
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            await fresh
        assert store.health_error() == f"etcd at {own_etcd.endpoint} is not connected"
    assert str(await open_error(settings)).startswith(f"etcd at {own_etcd.endpoint} cannot be reached: ")


# --- the wrong etcd, or the wrong data ---


async def test_a_wiped_etcd_ends_the_store_and_is_not_begun_anew(own_etcd: Etcd) -> None:
    settings = own_etcd.settings()
    async with open_etcd_store(settings) as store:
        known = store.id
        await store.put("/a", b"v", 0)
        own_etcd.stop()
        own_etcd.wipe()
        own_etcd.start()
        async with asyncio.timeout(60):
            lost = await store.failure
        assert isinstance(lost, StoreLost)
        assert str(lost) == (
            f"etcd at {own_etcd.endpoint}: {settings.prefix}/ is empty now, this server served {known}"
        )
        assert lost.hint == "restore etcd from a snapshot, then restart the server"
        with pytest.raises(StoreLost):
            store.put("/b", b"v", 0)
        with pytest.raises(StoreLost):
            store.read_index()
        assert store.health_error() == str(lost)
    again = await open_error(settings, known)
    assert isinstance(again, StoreLost)
    assert f"there is no Shoal store below {settings.prefix}/, but this server served {known}" in str(again)
    assert "--etcd-prefix" in again.hint


async def test_another_store_below_the_prefix_is_refused(etcd: Etcd) -> None:
    settings = etcd.settings()
    async with open_etcd_store(settings) as store:
        found = store.id
    again = await open_error(settings, "another")
    assert f"the store below {settings.prefix}/ is {found}, but this server served another" in str(again)


async def test_keys_of_another_program_are_left_alone(etcd: Etcd) -> None:
    settings = etcd.settings()
    async with grpc.aio.insecure_channel(etcd.endpoint.removeprefix("http://")) as channel:
        await rpc.KVStub(channel).Put(rpc.PutRequest(key=f"{settings.prefix}/pods/a".encode(), value=b"v"))
    failed = await open_error(settings)
    assert isinstance(failed, StoreFormatError)
    assert "holds keys of another program" in str(failed)


async def test_a_newer_format_is_refused(etcd: Etcd, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = etcd.settings()
    monkeypatch.setattr(claim, "FORMAT_VERSION", 3)
    monkeypatch.setattr(claim, "RESTORED_FORMAT_VERSION", 4)
    async with open_etcd_store(settings):
        pass
    monkeypatch.undo()
    assert "has format 3, this Shoal reads up to 2" in str(await open_error(settings))


async def test_an_old_etcd_is_refused_by_name() -> None:
    async def status(request: Any, context: Any) -> Any:
        return rpc.StatusResponse(version="3.5.12")

    handler = grpc.unary_unary_rpc_method_handler(
        status, rpc.StatusRequest.FromString, rpc.StatusResponse.SerializeToString
    )
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("etcdserverpb.Maintenance", {"Status": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        failed = await open_error(EtcdSettings((f"http://127.0.0.1:{port}",)))
        assert isinstance(failed, StoreFormatError)
        assert "is version 3.5.12; Shoal needs 3.5.13 or newer" in str(failed)
    finally:
        await server.stop(None)


async def test_a_value_etcd_does_not_take(etcd: Etcd) -> None:
    async with open_etcd_store(etcd.settings()) as store:
        with pytest.raises(ValueTooLarge, match="exceeds etcd's request limit"):
            await store.put("/a", b"v" * (2 << 20), 0)
        assert await store.put("/a", b"v", 0) > 0


async def test_an_etcd_that_is_full() -> None:
    with running_etcd("--quota-backend-bytes", str(4 << 20)) as etcd:
        async with open_etcd_store(etcd.settings()) as store:

            async def fill() -> None:
                for n in range(100):
                    await store.put(f"/{n}", b"v" * 200_000, 0)

            with pytest.raises(StoreUnavailable, match=r"is out of space: .* etcdctl alarm disarm"):
                await fill()
            assert len(await read_state(store)) > 1


# --- who may enter ---


async def test_tls_both_ways(tmp_path: Path) -> None:
    with guarded_etcd(tmp_path) as (etcd, authority):
        trusted = {"ca_file": authority.directory / "ca.crt"}
        files = client_files(authority, tmp_path)
        async with open_etcd_store(etcd.settings(**trusted, **files)) as store:
            assert await store.put("/a", b"v", 0) > 0

        stranger = CertificateAuthority(tmp_path / "stranger")
        (tmp_path / "other").mkdir()
        wrong = str(await open_error(etcd.settings(ca_file=stranger.directory / "ca.crt", **files)))
        assert "its certificate is not signed by the authority in --etcd-cafile" in wrong
        for bad in ({}, client_files(stranger, tmp_path / "other")):
            said = str(await open_error(etcd.settings(**trusted, **bad)))
            assert "--etcd-certfile" in said, said
        plain = etcd.settings()
        said = str(await open_error(replace(plain, endpoints=(etcd.endpoint.replace("https", "http"),))))
        assert "https://" in said, said
        missing = str(await open_error(etcd.settings(ca_file=tmp_path / "none")))
        assert missing == f"--etcd-cafile {tmp_path / 'none'}: No such file or directory"


async def test_users(own_etcd: Etcd) -> None:
    settings = own_etcd.settings()
    async with grpc.aio.insecure_channel(own_etcd.endpoint.removeprefix("http://")) as channel:
        auth = rpc.AuthStub(channel)
        start = f"{settings.prefix}/".encode()
        for name in ("root", "shoal", "other"):
            await auth.UserAdd(rpc.AuthUserAddRequest(name=name, password="word"))
            await auth.RoleAdd(rpc.AuthRoleAddRequest(name=name))
            await auth.UserGrantRole(rpc.AuthUserGrantRoleRequest(user=name, role=name))
        permission = rpc.Permission(permType=rpc.Permission.READWRITE, key=start, range_end=start[:-1] + b"0")
        await auth.RoleGrantPermission(rpc.AuthRoleGrantPermissionRequest(name="shoal", perm=permission))
        await auth.AuthEnable(rpc.AuthEnableRequest())
    user = replace(settings, username="shoal", password="word")
    async with open_etcd_store(user) as store:
        seen = WatchRecorder()
        store.watch(store.revision, seen)
        revision = await store.put("/a", b"v", 0)
        assert len(await seen.wait_for_revision(revision)) == 1
        fresh = store.read_index()
        assert fresh is not None
        await fresh
        await store.compact(revision)
        # Its token is forgotten by a restart; the store gets another one.
        own_etcd.stop()
        own_etcd.start()
        assert await store.put("/b", b"v", 0) > revision
    assert "requires a user: give --etcd-username" in str(await open_error(settings))
    assert "rejected the user name 'shoal' or its password" in str(await open_error(replace(user, password="no")))
    other = replace(settings, username="other", password="word")
    assert f"may not use {settings.prefix}/" in str(await open_error(other))
