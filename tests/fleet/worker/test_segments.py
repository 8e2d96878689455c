"""The log format at the hub: what is shipped is restored, and corrupted or missing segments are detected."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.fleet.bus.interface import BusMessage, MessageVersion
from shoal.fleet.worker.cluster_keys import copy_key, hosted_cluster_of, logical_cluster_key, write_order
from shoal.fleet.worker.cluster_storage import ClusterContents, StoreChange
from shoal.fleet.worker.replication.log import ClusterLog
from shoal.fleet.worker.replication.segments import (
    LogCorrupted,
    LogRecord,
    ReplayedState,
    SegmentMissing,
    encode_record,
    replay_log,
)
from shoal.fleet.worker.restore.decide import adapt_entries
from shoal.fleet.worker.subscriber.decide import version_of
from shoal.kinds.fleet import cluster_log
from shoal.kinds.fleet.logicalcluster import restored_revision, token_keys

Object = dict[str, Any]

keys = st.sampled_from([f"core/configmaps/default.east/default/c{n}" for n in range(6)])
values = st.one_of(st.none(), st.text(max_size=40).map(lambda text: orjson.dumps({"metadata": {}, "x": text})))
batches = st.lists(st.dictionaries(keys, values, min_size=1, max_size=4), max_size=8)


def shipped(log: ClusterLog, record: LogRecord | None, largest: int) -> list[bytes]:
    """Its segments, once they are there."""
    if record is None:
        return []
    segments = encode_record(record, log.epoch, log.next_segment, largest)
    parcel = log.encode_batch(record)
    log.mark_written(type(parcel)(parcel.first, segments, parcel.revision, parcel.is_base))
    return segments


@given(batches, st.lists(st.booleans(), min_size=8, max_size=8), st.sampled_from([7, 60, 700_000]))
def test_replay_gives_the_state(changes: list[dict[str, bytes | None]], anew: list[bool], largest: int) -> None:
    """Whatever comes in one shipment, wherever a base begins again, and however small the segments are."""
    world: dict[str, bytes] = {"core/configmaps/default.east/default/first": b"{}"}
    log = ClusterLog(3, 5, token_keys=("k1", "k2"))
    lying = shipped(log, log.new_base(ClusterContents(10, dict(world))), largest)
    revision = 10
    for batch, base in zip(changes, anew, strict=False):
        for key, value in batch.items():
            revision += 1
            log.add_changes((StoreChange("default.east", key, value, revision),))
            if value is None:
                world.pop(key, None)
            else:
                world[key] = value
        if base:
            lying += shipped(log, log.new_base(ClusterContents(revision, dict(world))), largest)
        else:
            lying += shipped(log, log.new_increment(), largest)
    found = replay_log(lying, 3, 5, revision)
    assert found.entries == world
    assert (found.revision, found.token_keys, found.last_segment) == (revision, ("k1", "k2"), 4 + len(lying))
    from_base = replay_log(lying[log.base_segment - 5 :], 3, log.base_segment, revision)
    assert from_base.entries == world, "what is before the last base may go"
    assert log.base_bytes == sum(map(len, lying[log.base_segment - 5 :]))


def three() -> list[bytes]:
    """A base of two segments and two records of one."""
    base = LogRecord(0, 10, {"a/b/c/d/e": b"x" * 500, "a/b/c/d/f": bytes(range(33, 92)) * 4}, ("k",))
    found = encode_record(base, 1, 1, 150)
    assert len(found) == 2
    found += encode_record(LogRecord(10, 12, {"a/b/c/d/e": b"y"}), 1, 3)
    found += encode_record(LogRecord(12, 15, {"a/b/c/d/f": None}), 1, 4)
    return found


def test_a_log_that_is_whole() -> None:
    assert replay_log(three(), 1, 1, 15).entries == {"a/b/c/d/e": b"y"}
    assert encode_record(LogRecord(10, 12, {"k": b"v"}), 1, 3) == encode_record(LogRecord(10, 12, {"k": b"v"}), 1, 3)


def test_what_was_not_finished_does_not_count() -> None:
    unfinished = encode_record(LogRecord(0, 20, {"a/b/c/d/g": b"z" * 500, "h": bytes(range(33, 92)) * 4}), 1, 5, 150)[
        :1
    ]
    assert replay_log([*three(), *unfinished], 1, 1, 15).revision == 15
    begun_anew = [*three(), *unfinished, *encode_record(LogRecord(0, 21, {"k": b"v"}), 1, 6)]
    assert replay_log(begun_anew, 1, 1, 21).entries == {"k": b"v"}


def test_what_is_missing() -> None:
    with pytest.raises(SegmentMissing, match="the log has no complete base from segment 1 on"):
        replay_log([], 1, 1, 0)
    with pytest.raises(SegmentMissing, match="the log has no complete base from segment 1 on"):
        replay_log(three()[:1], 1, 1, 0)
    with pytest.raises(SegmentMissing, match="the log ends at revision 12, before the expected revision 15"):
        replay_log(three()[:3], 1, 1, 15)
    with pytest.raises(SegmentMissing, match="no complete base before segment 3"):
        replay_log(three()[2:], 1, 3, 15)
    gap = [*three()[:2], *encode_record(LogRecord(12, 15, {"k": b"v"}), 1, 3)]
    with pytest.raises(SegmentMissing, match="segment 3 of the log follows revision 12, but the previous one is 10"):
        replay_log(gap, 1, 1, 15)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_what_is_torn(number: int) -> None:
    whole = three()
    for broken in (b"", whole[number - 1][:40], whole[number - 1][:-1] + b"!", whole[number - 1] + b"!"):
        with pytest.raises((LogCorrupted, SegmentMissing)):
            replay_log([*whole[: number - 1], broken, *whole[number:]], 1, 1, 15)
    for swapped in range(4):
        if swapped != number - 1:
            with pytest.raises(LogCorrupted, match="is labelled segment"):
                replay_log([*whole[: number - 1], whole[swapped], *whole[number:]], 1, 1, 15)
    with pytest.raises(LogCorrupted, match="of epoch 1"):
        replay_log(whole, 2, 1, 15)


def test_another_format() -> None:
    line, _, rest = three()[0].partition(b"\n")
    newer = orjson.dumps({**orjson.loads(line), "format": 2}) + b"\n" + rest
    with pytest.raises(LogCorrupted, match="has format 2, this worker reads 1"):
        replay_log([newer], 1, 1, 0)


def test_a_base_is_due_when_changes_outgrow_it() -> None:
    log = ClusterLog(1, 1)
    assert log.needs_base
    assert log.has_pending
    shipped(log, log.new_base(ClusterContents(1, {"k": b"v"})), 700_000)
    assert not log.needs_base
    assert not log.has_pending
    for revision in range(2, 202):
        assert not log.needs_base
        log.add_changes((StoreChange("default.east", "k", b"w", revision),))
        shipped(log, log.new_increment(), 700_000)
    assert log.needs_base


UID = "11111111-1111-1111-1111-111111111111"


@pytest.mark.parametrize(
    ("namespace", "name", "found"),
    [
        ("shoal-logs", f"default.east.{UID}.1.2", ("default", "east", UID, 1, 2)),
        ("shoal-logs", f"default.of.the.east.{UID}.1.2", ("default", "of.the.east", UID, 1, 2)),
        ("shoal-logs", f"default.{UID}.1.2.{UID}.3.4", ("default", f"{UID}.1.2", UID, 3, 4)),
        ("shoal-logs", f"default.east.{UID}.01.2", None),
        ("shoal-logs", f"default.{UID}.1.2", None),
        ("shoal-logs", "default.east.1.2", None),
        ("default", f"default.east.{UID}.1.2", None),
        ("shoal-logs", "east-log-1-2", ("shoal-logs", "east", "", 1, 2)),
        ("default", "east-log-1-2", ("default", "east", "", 1, 2)),
        ("default", "east-log-1-log-2-3", ("default", "east-log-1", "", 2, 3)),
        ("default", "east-log-01-2", None),
        ("default", "east-log-1", None),
        ("default", "-log-1-2", None),
        ("default", "east-kubeconfig", None),
    ],
)
def test_names_of_segments(namespace: str, name: str, found: tuple[str, str, str, int, int] | None) -> None:
    segment = cluster_log.parse_segment(namespace, name)
    assert (segment and (*segment.log, segment.number)) == found


# --- what is of a cluster, and what is another's where it is restored ---


@pytest.mark.parametrize(
    ("key", "value", "hosted"),
    [
        ("core/pods/default.east/default/p", b"{}", "default.east"),
        ("core.shoal.dev/logicalclusters/root//default.east", b"{}", "default.east"),
        ("core.shoal.dev/logicalclusters/root//root", b"{}", ""),
        ("cluster.x-k8s.io/clusters/root/default/east", None, "default.east"),
        ("infrastructure.cluster.x-k8s.io/embeddedclusters/root/default/east", b"{}", "default.east"),
        ("infrastructure.cluster.x-k8s.io/managedclusters/root/default/east", b"{}", ""),
        ("infrastructure.cluster.x-k8s.io/workers/root/shoal-system/w", b"{}", ""),
        ("cluster.x-k8s.io/machines/root/default/m", b'{"metadata":{},"spec":{"clusterName":"east"}}', "default.east"),
        ("cluster.x-k8s.io/machines/root/default/m", None, ""),
        ("cluster.x-k8s.io/machines/root/default/m", b"{}", ""),
        (
            "infrastructure.cluster.x-k8s.io/embeddedmachines/root/default/m",
            b'{"metadata":{"ownerReferences":[{"kind":"Cluster","name":"east"}]}}',
            "default.east",
        ),
        ("core/secrets/root/default/east-kubeconfig", b'{"metadata":{}}', ""),
    ],
)
def test_what_is_of_a_hosted_cluster(key: str, value: bytes | None, hosted: str) -> None:
    assert hosted_cluster_of(key, value) == hosted


def test_owners_come_after_what_they_own() -> None:
    keys = [
        "apps/deployments/default.east/default/web",
        copy_key("default", "east"),
        "cluster.x-k8s.io/clusters/root/default/east",
        "apps/replicasets/default.east/default/web-1",
        "cluster.x-k8s.io/machines/root/default/m",
        "core/pods/default.east/default/web-1-a",
        logical_cluster_key("default.east"),
    ]
    assert write_order(keys) == [keys[6], keys[5], keys[3], keys[0], keys[4], keys[2], keys[1]]


def message(epoch: int = 2) -> BusMessage:
    managed = {
        "metadata": {"name": "east", "namespace": "default", "uid": "hub-uid", "generation": 4},
        "spec": {"nodes": 7, "onWorkerLost": "Move"},
        "status": {"epoch": epoch, "restoreFrom": {"epoch": 1, "revision": 9}},
    }
    return BusMessage(("default", "east"), MessageVersion("hub-uid", 4, epoch, 99), False, managed)


def stored(api_version: str, kind: str, name: str, namespace: str = "default", **metadata: Any) -> bytes:
    place = {"name": name, **({"namespace": namespace} if namespace else {}), "uid": f"{name}-uid", **metadata}
    return orjson.dumps({"apiVersion": api_version, "kind": kind, "metadata": place, "spec": {}})


COPY, LOGICAL, POD = (
    copy_key("default", "east"),
    logical_cluster_key("default.east"),
    "core/pods/default.east/default/p",
)
ENTRIES = {
    COPY: stored("i/v1", "ManagedCluster", "east", annotations={"shoal.dev/frozen": "x"}),
    LOGICAL: stored("c/v1", "LogicalCluster", "default.east", ""),
    POD: stored("v1", "Pod", "p"),
}


def test_what_is_another_s_where_it_is_restored() -> None:
    state = ReplayedState(9, ENTRIES, ("k1", "k2", "k1"), 6)
    made = adapt_entries(state, message(), "hub-id", 1000, (1, 4))
    assert made[POD] == ENTRIES[POD]
    new = orjson.loads(made[LOGICAL])
    assert (restored_revision(new), token_keys(new), new["metadata"]["uid"]) == (1000, ("k1", "k2"), "default.east-uid")
    copy = orjson.loads(made[COPY])
    assert (copy["metadata"]["uid"], copy["spec"]["nodes"]) == ("east-uid", 7)
    assert version_of(copy) == MessageVersion("hub-uid", 4, 2, 99)
    assert copy["metadata"]["annotations"]["shoal.dev/restored-log"] == "1/4/6"
    assert "shoal.dev/frozen" not in copy["metadata"]["annotations"]
    for missing in (COPY, LOGICAL):
        some = {key: value for key, value in ENTRIES.items() if key != missing}
        with pytest.raises(LogCorrupted, match="no logical cluster"):
            adapt_entries(ReplayedState(9, some, (), 6), message(), "hub-id", 1000, (1, 4))


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("core/secrets/root/default/s", stored("v1", "Secret", "s"), "does not belong to this cluster"),
        ("core/pods/default.west/default/p", stored("v1", "Pod", "p"), "does not belong to this cluster"),
        (LOGICAL + "2", stored("c/v1", "LogicalCluster", "default.east2", ""), "does not belong to this cluster"),
        ("core/pods", b"{}", "has an invalid entry"),
        ("core", b"{}", "has an invalid entry"),
        ("core/pods/root/default/p", b"-", "has an invalid entry"),
        (POD, b"", "has an invalid entry"),
        (POD, b"[]", "has an invalid entry"),
        (POD, b'{"apiVersion":"v1"', "has an invalid entry"),
        (POD, stored("v1", "Pod", "other"), "has an invalid entry"),
        (POD, stored("v1", "Pod", "p", "other"), "has an invalid entry"),
        (POD, stored("v1", "Pod", "p", resourceVersion="7"), "has an invalid entry"),
        (
            POD,
            b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"default","uid":"u"}}',
            "has an invalid entry",
        ),
        (POD, b'{"apiVersion":"v1","kind":"Pod","metadata":{}}', "has an invalid entry"),
        (
            POD,
            b'{"apiVersion":"v1","kind":"Pod","metadata": {"name":"p","namespace":"default","uid":"u"}}',
            "has an invalid entry",
        ),
    ],
)
def test_a_worker_is_believed_about_its_cluster_only(key: str, value: bytes, said: str) -> None:
    with pytest.raises(LogCorrupted, match=said):
        adapt_entries(ReplayedState(9, {**ENTRIES, key: value}, (), 6), message(), "hub-id", 1000, (1, 4))
