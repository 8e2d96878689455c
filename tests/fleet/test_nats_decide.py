"""The bus over NATS without a server: CloudEvents, subjects, publishing, validation of messages, and the flags."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from shoal.cli.hub import command as hub
from shoal.cli.worker import command as worker
from shoal.fleet.bus import subjects
from shoal.fleet.bus.cloudevents import (
    DELETED,
    DELETED_ACK,
    PUT,
    RELEASED,
    STATUS,
    BusEvent,
    decode_event,
    encode_event,
    event_headers,
    version_from_headers,
)
from shoal.fleet.bus.decide import is_stale
from shoal.fleet.bus.interface import MessageVersion, message_of
from shoal.fleet.bus.jetstream import BusError, read_credentials
from shoal.fleet.bus.settings import BusSettings, bus_settings
from shoal.fleet.publisher.decide import OutgoingMessage, PublishDecision, PublishedMessage, decide
from shoal.fleet.receiver.controller import ReportDecision, decide_report
from shoal.kinds.fleet import infrav1

Object = dict[str, Any]
NAME = ("default", "a.b")
MARK = MessageVersion("u", 2, 3, 5_000_000_000)
NOW = "2026-11-16T00:00:00.000000Z"
HUB = "4c1d8d2e-0000-4000-8000-000000000001"


def managed(revision: int, owner: str = "w1", epoch: int = 3, *, deleting: bool = False) -> Object:
    metadata = {"name": "a.b", "namespace": "default", "uid": "u", "generation": 2, "resourceVersion": str(revision)}
    gone = {"deletionTimestamp": NOW, "finalizers": [infrav1.MANAGED_CLUSTER_FINALIZER]} if deleting else {}
    status = {"assignedWorker": owner, "epoch": epoch, "phase": "Running"}
    return {"metadata": {**metadata, **gone}, "spec": {}, "status": status}


def event(type_: str = STATUS, **changes: Any) -> BusEvent:
    return replace(BusEvent(type_, HUB, "w1", NAME, MARK, {}), **changes)


# --- envelopes ---


def test_an_envelope_is_a_cloud_event() -> None:
    sent = event(PUT, data=managed(5_000_000_000))
    said = orjson.loads(encode_event(sent, NOW))
    assert {key: said[key] for key in ("specversion", "type", "source", "subject", "time", "datacontenttype")} == {
        "specversion": "1.0",
        "type": "dev.shoal.managedcluster.put",
        "source": f"/hubs/{HUB}",
        "subject": "default/a.b",
        "time": NOW,
        "datacontenttype": "application/json",
    }
    assert (said["uid"], said["generation"], said["epoch"], said["revision"]) == ("u", 2, 3, "5000000000")
    assert all(key.isalnum() and key.islower() for key in said), "names of attributes, as CloudEvents wants them"
    assert orjson.loads(encode_event(event(STATUS), NOW))["source"] == f"/hubs/{HUB}/workers/w1"


@pytest.mark.parametrize("type_", [PUT, DELETED, RELEASED, STATUS, DELETED_ACK])
def test_there_and_back(type_: str) -> None:
    sent = event(type_)
    got = decode_event(sent.subject, encode_event(sent, NOW))
    assert (got, got.data) == (sent, {})
    assert version_from_headers(event_headers(sent)) == (type_, MARK)
    assert subjects.parse_subject(sent.subject) == ("w1", NAME)


@pytest.mark.parametrize(
    ("under", "text", "why"),
    [
        (
            event(worker="w2").subject,
            encode_event(event(), NOW),
            f"the envelope has subject shoal.{HUB}.status.w1.default.a.b",
        ),
        (event(hub="other").subject, encode_event(event(), NOW), "the envelope has subject"),
        (event(PUT).subject, encode_event(event(STATUS), NOW), "the envelope has subject"),
        (event().subject, encode_event(event(data=None), NOW), "the event has no data"),
        (event().subject, encode_event(event(data=["status"]), NOW), "the event has no data"),
        (
            event().subject,
            encode_event(event("dev.else"), NOW),
            "unsupported CloudEvent: specversion 1.0, type dev.else",
        ),
        (event().subject, b"[]", "not a CloudEvent of Shoal"),
        (event().subject, b"{", "not a CloudEvent of Shoal"),
        (event().subject, b'{"subject": 1}', "not a CloudEvent of Shoal"),
    ],
)
def test_what_is_not_believed(under: str, text: bytes, why: str) -> None:
    with pytest.raises(ValueError, match="^" + why):
        decode_event(under, text)


@given(st.recursive(st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3), st.lists, max_leaves=3))
def test_whatever_comes_is_refused_in_one_way(value: object) -> None:
    said = orjson.loads(encode_event(event(), NOW))
    for key in said:
        try:
            decode_event(event().subject, orjson.dumps({**said, key: value}))
        except ValueError:
            continue


def test_subjects_of_others() -> None:
    assert subjects.parse_subject("shoal.h.clusters.w1.default") is None
    assert subjects.parse_subject("else.h.clusters.w1.default.a") is None
    assert subjects.parse_subject("shoal.h.clusters..default.a") is None


# --- what the hub publishes ---


def held(type_: str, revision: int, epoch: int = 3, sequence: int = 7) -> PublishedMessage:
    return PublishedMessage(type_, MessageVersion("u", 2, epoch, revision), sequence)


def at(revision: int, epoch: int = 3) -> MessageVersion:
    return MessageVersion("u", 2, epoch, revision)


@pytest.mark.parametrize(
    ("live", "on_bus", "sends"),
    [
        (managed(9), {}, [OutgoingMessage("w1", PUT, at(9), True)]),
        (managed(9), {"w1": held(PUT, 8)}, [OutgoingMessage("w1", PUT, at(9), True)]),
        (managed(9), {"w1": held(PUT, 9)}, []),
        (managed(9), {"w1": held(PUT, 10)}, []),
        (managed(9, deleting=True), {"w1": held(PUT, 8)}, [OutgoingMessage("w1", DELETED, at(9), True)]),
        (managed(9, deleting=True), {"w1": held(DELETED, 9)}, []),
        (managed(9, ""), {}, []),
        (managed(9, ""), {"w1": held(PUT, 8)}, [OutgoingMessage("w1", RELEASED, at(9))]),
        (
            managed(9, "w2", 4),
            {"w1": held(PUT, 8)},
            [OutgoingMessage("w1", RELEASED, at(9, 4)), OutgoingMessage("w2", PUT, at(9, 4), True)],
        ),
        (managed(9, "w2", 4), {"w1": held(RELEASED, 9, 4), "w2": held(PUT, 9, 4)}, []),
        (managed(9, "w1", 5), {"w1": held(RELEASED, 8, 4)}, [OutgoingMessage("w1", PUT, at(9, 5), True)]),
        (managed(9, "w2"), {"w1": held(PUT, 10), "w2": held(RELEASED, 10)}, []),
        (None, {"w1": held(PUT, 8)}, [OutgoingMessage("w1", RELEASED, at(8))]),
    ],
)
def test_what_is_published(
    live: Object | None, on_bus: dict[str, PublishedMessage], sends: list[OutgoingMessage]
) -> None:
    assert decide(live, on_bus) == PublishDecision(tuple(sends))


def test_what_is_gone_leaves_nothing_on_the_bus() -> None:
    assert decide(None, {}) == PublishDecision()
    assert decide(None, {"w1": held(DELETED, 8), "w2": held(RELEASED, 8)}) == PublishDecision(purge=True)


@given(st.lists(st.tuples(st.sampled_from(["", "w1", "w2", "w3"]), st.booleans()), min_size=1, max_size=12))
def test_one_worker_at_most_is_asked_to_have_it(steps: list[tuple[str, bool]]) -> None:
    """`steps`: who has it next, and whether the publisher sees that state or is away."""
    on_bus: dict[str, PublishedMessage] = {}
    known: dict[str, MessageVersion] = {}
    for revision, (owner, seen) in enumerate([*steps, (steps[-1][0], True)], start=10):
        live = managed(revision, owner, epoch=revision)
        for send in decide(live, on_bus).messages if seen else ():
            assert not is_stale(known.get(send.worker), send.version), "each is newer than what the worker knows"
            known[send.worker] = send.version
            on_bus[send.worker] = PublishedMessage(send.type, send.version, revision)
        if seen:
            assert {name for name, each in on_bus.items() if each.type == PUT} == ({owner} if owner else set())
            assert decide(live, on_bus) == PublishDecision(), "and then there is nothing more to say"


# --- what the hub believes ---


def said(type_: str, revision: int = 9, worker: str = "w1", epoch: int = 3, uid: str = "u") -> BusEvent:
    return event(type_, worker=worker, version=MessageVersion(uid, 2, epoch, revision), data={"phase": "Failed"})


@pytest.mark.parametrize(
    ("heard", "live", "why"),
    [
        (said(STATUS), None, "ManagedCluster not found"),
        (said(STATUS, worker="w2"), managed(9), "ManagedCluster is not assigned to this worker"),
        (said(DELETED_ACK, worker="w2"), managed(9, deleting=True), "ManagedCluster is not assigned to this worker"),
        (said(STATUS, uid="other"), managed(9), "the report is for an earlier uid or epoch of the ManagedCluster"),
        (said(STATUS, epoch=2), managed(9), "the report is for an earlier uid or epoch of the ManagedCluster"),
        (said(DELETED_ACK, epoch=2), managed(9, deleting=True), "the report is for an earlier uid or epoch"),
        (said(STATUS, 8), managed(9), "the report is for revision 8, the current one is 9"),
        (said(DELETED_ACK), managed(9), "ManagedCluster is not being deleted"),
        (said(PUT), managed(9), "unexpected event type dev.shoal.managedcluster.put from a worker"),
    ],
)
def test_what_changes_nothing(heard: BusEvent, live: Object | None, why: str) -> None:
    found = decide_report(heard, live)
    assert found.write is None
    assert found.drop_reason.startswith(why)


def test_what_is_written() -> None:
    live = managed(9)
    assert decide_report(said(STATUS), live) == ReportDecision({**live, "status": {"phase": "Failed"}}, "status")
    same = event(STATUS, version=message_of(live).version, data=live["status"])
    assert decide_report(same, live) == ReportDecision(), "it is so already"
    leaving = managed(9, deleting=True)
    written = decide_report(said(DELETED_ACK, 8), leaving).write
    assert written is not None
    assert written["metadata"]["finalizers"] == []
    assert decide_report(said(DELETED_ACK, 8), written) == ReportDecision()


# --- flags ---


def test_where_the_bus_is() -> None:
    assert bus_settings("watch", None) == BusSettings()
    found = bus_settings("nats://u:secret@a:4222, tls://b:4222", Path("f"))
    assert found == BusSettings(("nats://u:secret@a:4222", "tls://b:4222"), Path("f"))
    assert "secret" not in repr(found)


@pytest.mark.parametrize("given", ["", "nats", "nats://", "http://a:1", "nats://a:1,", "nats://a:b", "nats://a/b"])
def test_what_is_no_bus(given: str, tmp_path: Path) -> None:
    for command in (hub, worker):
        run = CliRunner().invoke(command, ["--bus", given, "--data-dir", str(tmp_path / "data")])
        assert run.exit_code == 2
        assert "--bus must be watch, or URLs of NATS servers such as nats://10.0.0.1:4222" in run.output
    assert not (tmp_path / "data").exists()


def test_credentials(tmp_path: Path) -> None:
    file = tmp_path / "w1.creds"
    seed = bytes(range(32))
    text = base64.b32encode(b"\x93\x28" + seed + b"\0\0").decode().rstrip("=")
    file.write_text(f"-----BEGIN NATS USER JWT-----\nabc\n---\n\n-----BEGIN USER NKEY SEED-----\n{text}\n---\n")
    token, key = read_credentials(file)
    assert token == b"abc"
    assert key.private_bytes_raw() == Ed25519PrivateKey.from_private_bytes(seed).private_bytes_raw()
    file.write_text("nothing")
    with pytest.raises(BusError, match=f"^{file} is not a NATS credentials file$"):
        read_credentials(file)
    run = CliRunner().invoke(hub, ["--bus-creds", str(file)])
    assert "--bus-creds requires --bus nats://HOST:PORT" in run.output
