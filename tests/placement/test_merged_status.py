"""The statuses of leaves of any kind, merged into one."""

from __future__ import annotations

from typing import Any

from shoal.kinds.workload.leaf import new_leaf
from shoal.placement.splitter.merged_status import merged_status

Object = dict[str, Any]
STAMP = "2023-11-14T22:13:20Z"
SILENT = frozenset({"west"})


def root(kind: str, api_version: str = "v1", **status: Any) -> Object:
    metadata = {"name": "db", "namespace": "default", "uid": "r", "generation": 3}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "status": status}


def leaves(of: Object, share: int | None = None, /, **statuses: Object) -> list[Object]:
    return [{**new_leaf(of, name, {}, replicas=share), "status": status} for name, status in statuses.items()]


def merged(of: Object, *found: Object, silent: frozenset[str] = frozenset(), is_observed: bool = True) -> Object | None:
    status = merged_status(of, found, silent, STAMP, is_observed=is_observed)
    if status is not None:
        again = merged_status({**of, "status": status}, found, silent, "later", is_observed=is_observed)
        assert again == status, "it is written once"
    return status


def test_a_claim_is_bound_when_it_is_bound_everywhere() -> None:
    claim = root("PersistentVolumeClaim", phase="Pending")
    bound = {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]}
    assert merged(claim, *leaves(claim, east=bound, west=bound)) == bound
    assert merged(claim, *leaves(claim, east=bound, west={"phase": "Pending"})) == {"phase": "Pending"}
    assert merged(claim, *leaves(claim, east={"phase": "Lost"}, west=bound)) == {"phase": "Lost"}
    assert merged(claim) is None


def test_a_service_has_the_addresses_of_all_clusters() -> None:
    service = root("Service", loadBalancer={})
    east, west, none = ({"loadBalancer": one} for one in ({"ingress": [{"ip": "a"}]}, {"ingress": [{"ip": "b"}]}, {}))
    assert merged(service, *leaves(service, east=east, west=west)) == {
        "loadBalancer": {"ingress": [{"ip": "a"}, {"ip": "b"}]}
    }
    assert merged(service, *leaves(service, east=none, west=none)) == {"loadBalancer": {}}


def test_a_stateful_set_waits_for_every_cluster() -> None:
    of = root("StatefulSet", "apps/v1", readyReplicas=6)
    one = {"replicas": 3, "readyReplicas": 3, "observedGeneration": 7, "currentRevision": "db-1"}
    status = merged(of, *leaves(of, 3, east=one, west=one))
    assert status == {"readyReplicas": 6, "replicas": 6, "currentRevision": "db-1", "observedGeneration": 3}
    assert "observedGeneration" not in (merged(of, *leaves(of, 3, east=one, west=one), is_observed=False) or {})
    status = merged(of, *leaves(of, 3, east=one, west=one), silent=SILENT)
    assert status is not None
    assert (status["replicas"], status["readyReplicas"]) == (6, 3)
    assert [one["message"] for one in status["conditions"]] == [
        "west does not report: none of its 3 replicas is counted as ready"
    ]
    assert merged(of) == {"readyReplicas": 0}, "without a cluster nothing is ready"


def test_a_daemon_set_counts_the_nodes_of_a_silent_cluster_as_unavailable() -> None:
    of = root("DaemonSet", "apps/v1")
    one = {"desiredNumberScheduled": 2, "numberAvailable": 2, "numberReady": 2}
    status = merged(of, *leaves(of, east=one, west=one), silent=SILENT)
    assert status is not None
    counts = {"desiredNumberScheduled": 4, "numberAvailable": 2, "numberReady": 2, "numberUnavailable": 2}
    assert counts.items() <= status.items()


def test_a_condition_on_which_clusters_differ_is_unknown() -> None:
    of = root("Shop", "example.com/v1", ours="stays")

    def ready(status: str) -> Object:
        condition = {"type": "Ready", "status": status, "reason": "Opened", "message": "", "lastTransitionTime": "then"}
        return {"phase": "Open" if status == "True" else "Shut", "conditions": [condition]}

    assert merged(of, *leaves(of, east=ready("True"), west=ready("True"))) == {
        "ours": "stays",
        "phase": "Open",
        "conditions": [
            {"type": "Ready", "status": "True", "reason": "Opened", "message": "", "lastTransitionTime": STAMP}
        ],
    }
    status = merged(of, *leaves(of, east=ready("True"), west=ready("False")))
    assert status is not None
    assert "phase" not in status
    [condition] = status["conditions"]
    assert (condition["status"], condition["message"]) == ("Unknown", "True in east, False in west")
    status = merged(of, *leaves(of, east=ready("True"), west=ready("True")), silent=SILENT)
    assert status is not None
    assert status["conditions"][0]["message"] == "True in east, Unknown in west"
    plain = {"conditions": [{"type": "Ready", "status": "True"}]}
    assert merged(of, *leaves(of, east=plain)) == {"ours": "stays", **plain}, "no fields that the kind may not have"
