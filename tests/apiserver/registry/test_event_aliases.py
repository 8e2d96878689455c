"""Events of the core group and of events.k8s.io are the same objects in two forms."""

from __future__ import annotations

from tests.serving import Cluster, Object

CORE = "/api/v1/namespaces/default/events"
NEW = "/apis/events.k8s.io/v1/namespaces/default/events"
TIME = "2024-01-02T03:04:05Z"


def _core_event() -> Object:
    about = {"kind": "Widget", "name": "w", "namespace": "default"}
    said = {"message": "done", "reason": "Built", "type": "Normal", "count": 2, "firstTimestamp": TIME}
    return {"metadata": {"name": "e"}, "involvedObject": about, "source": {"component": "builder"}, **said}


def test_written_by_one_and_read_by_the_other(cluster: Cluster) -> None:
    made = cluster.post(CORE, _core_event()).ok()
    found = cluster.get(f"{NEW}/e").ok()
    assert (found["apiVersion"], found["metadata"]) == ("events.k8s.io/v1", made["metadata"])
    assert (found["regarding"]["name"], found["note"], found["deprecatedCount"]) == ("w", "done", 2)
    assert (found["deprecatedSource"], found["deprecatedFirstTimestamp"]) == ({"component": "builder"}, TIME)
    assert not {"involvedObject", "message", "count", "source", "firstTimestamp"} & set(found)
    answer = cluster.patch(f"{NEW}/e", {"note": "done again"})
    said = 'Event "e" is invalid: message: Invalid value: "done again": field is immutable'
    assert (answer.status, answer["message"]) == (422, said)
    changed = cluster.patch(f"{NEW}/e", {"metadata": {"labels": {"a": "b"}}}).ok()
    assert (changed["apiVersion"], changed["note"]) == ("events.k8s.io/v1", "done")
    again = cluster.get(f"{CORE}/e").ok()
    assert (again["apiVersion"], again["message"], again["metadata"]["labels"]) == ("v1", "done", {"a": "b"})
    assert "note" not in again
    # What was owned in the other form cannot be told in this one.
    assert [entry["apiVersion"] for entry in again["metadata"]["managedFields"]] == ["events.k8s.io/v1"]
    cluster.delete(f"{NEW}/e").ok()
    assert cluster.get(f"{CORE}/e").status == 404


def test_lists_and_watches(cluster: Cluster) -> None:
    cluster.post(CORE, _core_event()).ok()
    assert [e["note"] for e in cluster.get(f"{NEW}?fieldSelector=regarding.name=w").ok()["items"]] == ["done"]
    assert cluster.get(f"{NEW}?fieldSelector=regarding.name=x").ok()["items"] == []
    assert len(cluster.get(f"{CORE}?fieldSelector=involvedObject.name=w").ok()["items"]) == 1
    assert cluster.get(f"{NEW}?fieldSelector=involvedObject.name=w").status == 400
    with cluster.watch(CORE) as old, cluster.watch(NEW) as new:
        assert [old.next()["object"]["message"], new.next()["object"]["note"]] == ["done", "done"]
        cluster.patch(f"{CORE}/e", {"message": "more"}).ok()
        assert [old.next()["object"]["message"], new.next()["object"]["note"]] == ["more", "more"]
