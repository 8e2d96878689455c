"""`shoal explain worker`: the printed explanation for a given fleet."""

from __future__ import annotations

from typing import Any

from shoal.cli.explain import worker_lines
from shoal.fleet.explain.worker import explain_worker
from shoal.kinds.fleet import infrav1

Object = dict[str, Any]
NOW = "2026-11-15T12:00:00Z"


def worker(name: str, conditions: tuple[Object, ...] = (), **spec: Any) -> Object:
    ready = {"type": "Ready", "status": "True", "reason": "Heartbeat", "message": "worker renews its Lease"}
    metadata = {"name": name, "namespace": "shoal-system"}
    spec = {"capacity": 10, "provides": ["embedded"], **spec}
    return {"metadata": metadata, "spec": spec, "status": {"conditions": [ready, *conditions]}}


def cluster(name: str, on: str = "w1", status: Object | None = None, **spec: Any) -> Object:
    metadata = {"name": name, "namespace": "default", "generation": 1}
    told = {"assignedWorker": on, "epoch": 2, "phase": "Running", **(status or {})}
    return {"metadata": metadata, "spec": {"nodes": 0, "infrastructure": "embedded", **spec}, "status": told}


def test_a_worker_that_is_drained() -> None:
    mark = {"worker": "w1", "epoch": 2}
    kept = {"held": mark, "backup": {**mark, "revision": 5, "time": NOW, "complete": True}}
    lease = {"metadata": {"annotations": {infrav1.FENCES_ANNOTATION: "true"}}, "spec": {"renewTime": NOW}}
    drained: Object = {"type": "Drained", "status": "False", "reason": "Draining", "message": "4 are left"}
    workers = [worker("w1", (drained,), drain=True), worker("w2"), worker("w3", unschedulable=True)]
    move = {"move": {"from": "w1", "to": "w2", "reason": "Drain", "since": NOW}}
    managed = [
        cluster("a", status=move),
        cluster("b", location="north"),
        cluster("c", onWorkerLost="Move", status=kept),
        cluster("d", onWorkerLost="Move"),
        cluster("e", on="w2"),
        cluster("f", infrastructure="kind"),
    ]
    found = explain_worker("w1", workers, managed, lease, None)
    printed = worker_lines(found)
    assert printed[:4] == [
        "worker w1 has 5 ManagedClusters",
        "  Ready True (Heartbeat): worker renews its Lease",
        "  Drained False (Draining): 4 are left",
        "",
    ]
    assert printed[4].split("  ")[0] == "MANAGEDCLUSTER"
    assert printed[5].split() == ["default/a", "Running", "w2", "w2", "stays"]
    by_name = {each.name: each for each in found.hosted}
    assert (by_name["default/a"].moving, by_name["default/a"].elsewhere) == ("w2", "w2")
    assert by_name["default/b"].why == "0 of 2 workers fit: 1 is cordoned, 1 is not in location north"
    assert (by_name["default/b"].if_lost, by_name["default/c"].if_lost) == ("stays", "moves")
    said = "stays: worker w1 has not confirmed that its Lease guards writes, so it may still write"
    assert by_name["default/d"].if_lost == said
    assert by_name["default/f"].why == "clusters with infrastructure kind cannot be moved"
    wrong = explain_worker("w1", workers, managed, lease, {"data": {"grace": "x"}})
    assert "grace is not a number" in {each.name: each for each in wrong.hosted}["default/c"].if_lost
