"""The findings of fsck in the contents of a store, and their remedies."""

from __future__ import annotations

from typing import Any

import orjson

from shoal.apiserver.entries import REMOVED
from shoal.assemble.inspecting import Finding, Inspection
from shoal.store.encrypted.keys import KeyRing, key_name
from shoal.store.interface import KeyValue
from tests.backup.stores import contents, some_object

MAP = "core/configmaps/root/default/"


def inspected(values: dict[str, bytes], ring: KeyRing | None = None, revision: int = 5) -> list[Finding]:
    inspection = Inspection(9, ring, ("core/secrets",))
    for key, value in {**contents(0), **values}.items():
        inspection.add(KeyValue(key, value, revision))
    return inspection.findings()


def only(values: dict[str, bytes], ring: KeyRing | None = None) -> Finding:
    (finding,) = inspected(values, ring)
    return finding


def a_map(name: str, **metadata: Any) -> bytes:
    obj = orjson.loads(some_object("ConfigMap", "", "default", name))
    obj["metadata"].update(metadata)
    return orjson.dumps(obj)


def test_what_is_sound_has_no_findings() -> None:
    assert inspected(contents(200)) == []
    event = orjson.dumps(orjson.loads(a_map("e")) | {"apiVersion": "events.k8s.io/v1"})
    assert inspected({"core/events/root/default/e": event}) == []


def test_values_that_are_no_objects() -> None:
    finding = only(
        {f"{MAP}{n}": wrong for n, wrong in enumerate((b"", b"{", b"[]", b'{"metadata":1}', b"\xff", b"{}"))}
    )
    assert (finding.what, finding.problem, finding.count) == ("values that are not objects in JSON", True, 6)
    assert finding.sentence().endswith(f"{MAP}4 and 1 more")
    assert finding.todo.startswith("restore a backup")


def test_keys_that_are_not_ours() -> None:
    assert only({"short/key": REMOVED}).keys == ["short/key"]


def test_objects_under_the_key_of_another() -> None:
    values = {
        f"{MAP}a": a_map("b"),
        "core/configmaps/root/other/c": a_map("c"),
        "apps/configmaps/root/default/d": a_map("d"),
    }
    finding = only(values)
    assert (finding.what, finding.count) == ("objects that are stored under the key of another", 3)


def test_uids() -> None:
    same = {
        f"{MAP}a": a_map("a", uid="u"),
        f"{MAP}b": a_map("b", uid="u"),
        "core/configmaps/team/default/a": a_map("a", uid="u"),
    }
    finding = only(same)
    assert finding.sentence() == f"objects with the uid of {MAP}a: {MAP}b", "another cluster may have it, too"
    assert only({f"{MAP}a": a_map("a", uid="")}).what == "objects without a uid"


def test_owners() -> None:
    owned = a_map("owned", ownerReferences=[{"uid": "o"}])
    finding = only({f"{MAP}owned": owned})
    assert (finding.what, finding.problem) == ("objects whose owners are not stored", False)
    assert inspected({f"{MAP}owned": owned, f"{MAP}z": a_map("z", uid="o")}) == []
    assert only({f"{MAP}owned": owned, "core/configmaps/team/default/z": a_map("z", uid="o")}).keys == [f"{MAP}owned"]


def test_objects_of_clusters_that_are_not_there() -> None:
    finding = only({"core/configmaps/lost/default/a": a_map("a"), "core/configmaps/lost/default/b": REMOVED})
    assert finding.what == "2 objects of the logical cluster lost, which does not exist"
    assert "create the LogicalCluster lost and delete it again" in finding.todo


def test_revisions_beyond_the_newest() -> None:
    (finding,) = inspected({}, revision=10)
    assert finding.what == "revisions that are not between 1 and the store's newest, 9"
    assert inspected({}, revision=9) == []
    assert inspected({}, revision=0) != []


def test_sealed_values() -> None:
    key = "core/secrets/root/default/s"
    ring, other = KeyRing((b"a" * 32,), "keys"), KeyRing((b"b" * 32,), "keys")
    plain = some_object("Secret", "", "default", "s")
    sealed = ring.seal(key, plain)
    assert inspected({key: sealed}, ring) == []
    unread = only({key: sealed})
    assert (unread.problem, unread.todo) == (False, "give --encryption-key-file to check them")
    assert key_name(b"a" * 32) in unread.what
    lost = only({key: sealed}, other)
    assert (lost.problem, lost.what) == (True, f"values encrypted with the key {ring.names[0]}, which was not given")
    broken = only({key: sealed[:-1] + b"\0" if sealed[-1] else sealed[:-1] + b"\1"}, ring)
    assert (broken.problem, broken.what) == (True, "values that do not decrypt")
    assert only({key: plain}, ring).what == "values of encrypted kinds that are not encrypted"
    assert only({key: ring.seal(key, b"nonsense")}, ring).what == "values that are not objects in JSON"
