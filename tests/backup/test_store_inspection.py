"""The findings of fsck in the contents of a store, and their remedies."""

from __future__ import annotations

from typing import Any

import orjson

from shoal.apiserver.cache.objects import TOMBSTONE
from shoal.assemble.commands.store_inspection import Finding, StoreInspection
from shoal.store.encrypted.keys import KeyRing, key_name
from shoal.store.interface import KeyValue
from tests.backup.stores import contents, some_object

MAP = "core/configmaps/root/default/"


def inspect_records(values: dict[str, bytes], ring: KeyRing | None = None, revision: int = 5) -> list[Finding]:
    inspection = StoreInspection(9, ring, ("core/secrets",))
    for key, value in {**contents(0), **values}.items():
        inspection.add(KeyValue(key, value, revision))
    return inspection.findings()


def only_finding(values: dict[str, bytes], ring: KeyRing | None = None) -> Finding:
    (finding,) = inspect_records(values, ring)
    return finding


def config_map(name: str, **metadata: Any) -> bytes:
    obj = orjson.loads(some_object("ConfigMap", "", "default", name))
    obj["metadata"].update(metadata)
    return orjson.dumps(obj)


def test_what_is_sound_has_no_findings() -> None:
    assert inspect_records(contents(200)) == []
    event = orjson.dumps(orjson.loads(config_map("e")) | {"apiVersion": "events.k8s.io/v1"})
    assert inspect_records({"core/events/root/default/e": event}) == []


def test_values_that_are_no_objects() -> None:
    finding = only_finding(
        {f"{MAP}{n}": wrong for n, wrong in enumerate((b"", b"{", b"[]", b'{"metadata":1}', b"\xff", b"{}"))}
    )
    assert (finding.message, finding.is_problem, finding.count) == ("values that are not JSON objects", True, 6)
    assert finding.sentence().endswith(f"{MAP}4 and 1 more")
    assert finding.remedy.startswith("restore an earlier backup")


def test_keys_that_are_not_ours() -> None:
    assert only_finding({"short/key": TOMBSTONE}).keys == ["short/key"]


def test_objects_under_the_key_of_another() -> None:
    values = {
        f"{MAP}a": config_map("b"),
        "core/configmaps/root/other/c": config_map("c"),
        "apps/configmaps/root/default/d": config_map("d"),
    }
    finding = only_finding(values)
    assert (finding.message, finding.count) == ("objects stored under the key of another object", 3)


def test_uids() -> None:
    same = {
        f"{MAP}a": config_map("a", uid="u"),
        f"{MAP}b": config_map("b", uid="u"),
        "core/configmaps/team/default/a": config_map("a", uid="u"),
    }
    finding = only_finding(same)
    assert finding.sentence() == f"objects with the uid of {MAP}a: {MAP}b", "another cluster may have it, too"
    assert only_finding({f"{MAP}a": config_map("a", uid="")}).message == "objects without a uid"


def test_owners() -> None:
    owned = config_map("owned", ownerReferences=[{"uid": "o"}])
    finding = only_finding({f"{MAP}owned": owned})
    assert (finding.message, finding.is_problem) == ("objects whose owners do not exist", False)
    assert inspect_records({f"{MAP}owned": owned, f"{MAP}z": config_map("z", uid="o")}) == []
    assert only_finding({f"{MAP}owned": owned, "core/configmaps/team/default/z": config_map("z", uid="o")}).keys == [
        f"{MAP}owned"
    ]


def test_objects_of_clusters_that_are_not_there() -> None:
    finding = only_finding(
        {"core/configmaps/lost/default/a": config_map("a"), "core/configmaps/lost/default/b": TOMBSTONE}
    )
    assert finding.message == "2 objects of logical cluster lost, which does not exist"
    assert "create LogicalCluster lost and delete it again" in finding.remedy


def test_revisions_beyond_the_newest() -> None:
    (finding,) = inspect_records({}, revision=10)
    assert finding.message == "revisions that are not between 1 and the store's newest revision 9"
    assert inspect_records({}, revision=9) == []
    assert inspect_records({}, revision=0) != []


def test_sealed_values() -> None:
    key = "core/secrets/root/default/s"
    ring, other = KeyRing((b"a" * 32,), "keys"), KeyRing((b"b" * 32,), "keys")
    plain = some_object("Secret", "", "default", "s")
    sealed = ring.encrypt(key, plain)
    assert inspect_records({key: sealed}, ring) == []
    unread = only_finding({key: sealed})
    assert (unread.is_problem, unread.remedy) == (False, "give --encryption-key-file to check them")
    assert key_name(b"a" * 32) in unread.message
    lost = only_finding({key: sealed}, other)
    assert (lost.is_problem, lost.message) == (
        True,
        f"values encrypted with key {ring.key_names[0]}, which was not given",
    )
    broken = only_finding({key: sealed[:-1] + b"\0" if sealed[-1] else sealed[:-1] + b"\1"}, ring)
    assert (broken.is_problem, broken.message) == (True, "values that cannot be decrypted")
    assert only_finding({key: plain}, ring).message == "unencrypted values of encrypted kinds"
    assert only_finding({key: ring.encrypt(key, b"nonsense")}, ring).message == "values that are not JSON objects"
