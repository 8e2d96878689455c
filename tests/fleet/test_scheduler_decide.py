"""Scheduling decisions: filters, scores, the message when no Worker fits, and the written status."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from shoal.fleet.scheduler.candidate import Candidate, SpreadCounts, WorkerUsage, candidate_of, spread_group_of
from shoal.fleet.scheduler.decide import (
    ManagedClusterUpdate,
    Unschedulable,
    bound_status,
    finalizer_and_phase,
    select_worker,
    unschedulable_status,
)
from shoal.fleet.scheduler.filters import filter_capacity, run_filters
from shoal.fleet.scheduler.requirements import ClusterRequirements, requirements_of
from shoal.fleet.scheduler.scaleup import decide_scale_up, parse_auto_worker_settings
from shoal.fleet.scheduler.scores import WEIGHTS, ScoringContext, score_worker
from shoal.kinds.fleet import infrav1
from shoal.objects.selectors import parse_label_selector

Object = dict[str, Any]
NOW = "2026-11-15T12:00:00Z"

NO_KIND = (
    "does not provide infrastructure kind (start a worker with --kind where kind and a container engine are "
    "installed: docs/kind.md)"
)
ROOMY = Candidate("w", capacity=2)
TAINTED = replace(ROOMY, taints=(("team", "a", "NoSchedule"),))
NOT_TOLERATED = "has untolerated taint team=a:NoSchedule"
KIND = ClusterRequirements(infrastructure="kind")
KIND_WORKER = replace(ROOMY, infrastructures=frozenset({"kind"}), machine=(("machine-cpu", 2000),))
LIMITED = replace(ROOMY, allocatable=(("cpu", 8000), ("nodes", 3)))


def cluster(name: str = "east", spec: Object | None = None, status: Object | None = None, **metadata: Any) -> Object:
    meta = {"name": name, "namespace": "default", "generation": 1, "uid": f"u-{name}", "resourceVersion": "1"}
    obj: Object = {"metadata": {**meta, **metadata}, "spec": {"infrastructure": "embedded", **(spec or {})}}
    return {**obj, "status": status} if status is not None else obj


def why_not(asked: ClusterRequirements, worker: Candidate, used: WorkerUsage) -> str:
    found = run_filters(asked, worker) or filter_capacity(asked, worker, used)
    return found.singular if found is not None else ""


@pytest.mark.parametrize(
    ("asked", "worker", "used", "why"),
    [
        (ClusterRequirements(), ROOMY, 0, ""),
        (ClusterRequirements(), ROOMY, 1, ""),
        (ClusterRequirements(), ROOMY, 2, "has no free slot"),
        (ClusterRequirements(), ROOMY, 3, "has no free slot"),
        (ClusterRequirements(), replace(ROOMY, capacity=0), 0, "takes no clusters (capacity 0)"),
        (ClusterRequirements(), replace(ROOMY, is_ready=False), 0, "is not ready"),
        (ClusterRequirements(), replace(ROOMY, is_deleting=True), 0, "is being deleted"),
        (ClusterRequirements(), replace(ROOMY, is_cordoned=True), 0, "is cordoned"),
        (
            ClusterRequirements(infrastructure="kind"),
            ROOMY,
            0,
            NO_KIND,
        ),
        (KIND, KIND_WORKER, 0, ""),
        (KIND, replace(KIND_WORKER, kind_error="KindNotFound"), 0, "has no kind command"),
        (KIND, replace(KIND_WORKER, kind_error="EngineNotFound"), 0, "has no container engine"),
        (
            KIND,
            replace(KIND_WORKER, kind_error="EngineUnavailable"),
            0,
            "has a container engine that does not answer",
        ),
        (KIND, replace(KIND_WORKER, kind_error="TimedOut"), 0, "has no kind that works (TimedOut)"),
        (ClusterRequirements(), replace(ROOMY, kind_error="KindNotFound"), 0, ""),
        (replace(KIND, version="v1.36.4"), replace(KIND_WORKER, kind_versions=frozenset({"v1.36.4"})), 0, ""),
        (
            replace(KIND, version="v1.36.3"),
            replace(KIND_WORKER, versions=frozenset({"v1.36"}), kind_versions=frozenset({"v1.36.4"})),
            0,
            "does not offer version v1.36.3",
        ),
        (
            requirements_of({"spec": {"infrastructure": "kind", "nodes": 4}}),
            KIND_WORKER,
            0,
            "",
        ),
        (
            requirements_of({"spec": {"infrastructure": "kind", "nodes": 5}}),
            KIND_WORKER,
            0,
            "has less than 2500m cpu left on its machine for kind nodes",
        ),
        (
            requirements_of({"spec": {"infrastructure": "kind", "nodes": 3}}),
            replace(KIND_WORKER, machine=(("machine-memory", 2 * 2**30),)),
            0,
            "has less than 3Gi memory left on its machine for kind nodes",
        ),
        (
            requirements_of({"spec": {"infrastructure": "kind", "nodes": 0}}),
            replace(KIND_WORKER, allocatable=(("nodes", 0),)),
            0,
            "has less than 1 nodes left",
        ),
        (ClusterRequirements(location="north"), ROOMY, 0, "is not in location north"),
        (ClusterRequirements(location="north"), replace(ROOMY, location="north"), 0, ""),
        (ClusterRequirements(), replace(ROOMY, location="north"), 0, ""),
        (ClusterRequirements(selector=parse_label_selector("disk=ssd")), ROOMY, 0, "does not match workerSelector"),
        (
            ClusterRequirements(selector=parse_label_selector("disk=ssd")),
            replace(ROOMY, labels=(("disk", "ssd"),)),
            0,
            "",
        ),
        (ClusterRequirements(), TAINTED, 0, NOT_TOLERATED),
        (ClusterRequirements(tolerations=({"key": "team", "operator": "Exists"},)), TAINTED, 0, ""),
        (ClusterRequirements(tolerations=({"key": "team", "value": "b"},)), TAINTED, 0, NOT_TOLERATED),
        (ClusterRequirements(), replace(ROOMY, taints=(("team", "a", "PreferNoSchedule"),)), 0, ""),
        (ClusterRequirements(version="v1.35.2"), ROOMY, 0, ""),
        (ClusterRequirements(version="v1.35.2"), replace(ROOMY, versions=frozenset({"v1.35"})), 0, ""),
        (ClusterRequirements(version="v1.35.2"), replace(ROOMY, versions=frozenset({"v1.35.2"})), 0, ""),
        (ClusterRequirements(), replace(ROOMY, versions=frozenset({"v1.36"})), 0, ""),
        (
            ClusterRequirements(version="v1.35.2"),
            replace(ROOMY, versions=frozenset({"v1.36", "v1.3"})),
            0,
            "does not offer version v1.35.2",
        ),
        (ClusterRequirements(requests={"nodes": 3, "cpu": 8000, "memory": 9}), LIMITED, 0, ""),
        (ClusterRequirements(requests={"nodes": 3, "cpu": 9000}), LIMITED, 0, "has less than 9 cpu left"),
        (ClusterRequirements(requests={"nodes": 4, "cpu": 0}), LIMITED, 0, "has less than 4 nodes left"),
    ],
)
def test_refusals(asked: ClusterRequirements, worker: Candidate, used: int, why: str) -> None:
    assert why_not(asked, worker, WorkerUsage(used)) == why


def test_what_is_taken_of_a_resource_is_not_given_again() -> None:
    asked = ClusterRequirements(requests={"nodes": 2})
    assert why_not(asked, LIMITED, WorkerUsage(1, Counter(nodes=1))) == ""
    assert why_not(asked, LIMITED, WorkerUsage(1, Counter(nodes=2))) == "has less than 2 nodes left"
    assert why_not(ClusterRequirements(), LIMITED, WorkerUsage(1, Counter(nodes=9))) == "", "it asks for none of it"


def view(
    asked: ClusterRequirements | None = None, company: SpreadCounts | None = None, last: str = "", cheapest: float = 0.0
) -> ScoringContext:
    return ScoringContext(asked or ClusterRequirements(), company or SpreadCounts(), last, cheapest)


def beside(**workers: int) -> SpreadCounts:
    company = SpreadCounts()
    for name, number in workers.items():
        company.add(name, f"in-{name}", number)
    return company


A, B = Candidate("a", 10, location="in-a"), Candidate("b", 10, location="in-b")
FREE = WorkerUsage()


@pytest.mark.parametrize(
    ("seen", "a", "b", "best"),
    [
        (view(), (A, FREE), (B, FREE), "a"),
        (view(), (A, WorkerUsage(1)), (B, FREE), "b"),
        (view(), (replace(A, capacity=100), WorkerUsage(40)), (B, WorkerUsage(5)), "a"),
        (view(ClusterRequirements(preferred_locations=("in-b",))), (A, FREE), (B, WorkerUsage(5)), "b"),
        (view(ClusterRequirements(preferred_locations=("in-b", "in-a"))), (A, FREE), (B, FREE), "b"),
        (view(), (replace(A, taints=(("t", "", "PreferNoSchedule"),)), FREE), (B, WorkerUsage(2)), "b"),
        (view(cheapest=1.0), (replace(A, cost=2.0), FREE), (replace(B, cost=1.0), FREE), "b"),
        (view(cheapest=2.0), (replace(A, cost=2.0), FREE), (B, FREE), "a"),
        (view(company=beside(a=1)), (A, WorkerUsage(1)), (B, WorkerUsage(1)), "b"),
        (view(last="b"), (A, FREE), (B, FREE), "b"),
        (view(last="gone"), (A, FREE), (B, FREE), "a"),
        (
            view(ClusterRequirements(requests={"nodes": 2})),
            (replace(A, allocatable=(("nodes", 3),)), FREE),
            (replace(B, allocatable=(("nodes", 30),)), FREE),
            "b",
        ),
    ],
    ids=[
        *("by-name", "free", "share", "preferred", "order-of-preference", "soft-taint", "cost", "no-cost-is-none"),
        *("spread", "sticky", "sticky-to-nobody", "scarcest-resource"),
    ],
)
def test_who_is_best(
    seen: ScoringContext, a: tuple[Candidate, WorkerUsage], b: tuple[Candidate, WorkerUsage], best: str
) -> None:
    assert select_worker(seen, [a, b]) == select_worker(seen, [b, a]) == best


def test_locations_share_a_group_evenly() -> None:
    """Two Workers here and one there: the second cluster of a group goes to the other location."""
    here, too = replace(A, location="here"), replace(B, location="here")
    there = Candidate("c", 10, location="there")
    company = SpreadCounts()
    company.add("a", "here", 1)
    assert select_worker(view(company=company), [(here, WorkerUsage(1)), (too, FREE), (there, FREE)]) == "c"


def test_every_score_has_a_weight_and_is_told() -> None:
    assert set(score_worker(view(), A, FREE)) == set(WEIGHTS)


@pytest.mark.parametrize(
    ("asked", "workers", "told"),
    [
        (
            ClusterRequirements(),
            [],
            Unschedulable("NoWorkers", "there are no workers: start one with shoal worker, or shoal up --workers N"),
        ),
        (ClusterRequirements(), [(ROOMY, 2)], Unschedulable("NoFreeSlot", "0 of 1 worker fits: 1 has no free slot")),
        (
            ClusterRequirements(),
            [(ROOMY, 2), (ROOMY, 2), (replace(ROOMY, is_ready=False), 0)],
            Unschedulable("Unschedulable", "0 of 3 workers fit: 2 have no free slot, 1 is not ready"),
        ),
        (
            ClusterRequirements(),
            [(replace(ROOMY, capacity=0), 0), (replace(ROOMY, capacity=0), 0)],
            Unschedulable("NoFreeSlot", "0 of 2 workers fit: 2 take no clusters (capacity 0)"),
        ),
        (
            ClusterRequirements(selector=parse_label_selector("disk=ssd")),
            [(ROOMY, 0)],
            Unschedulable("SelectorMatchesNothing", "0 of 1 worker fits: 1 does not match workerSelector"),
        ),
        (
            ClusterRequirements(version="v1.29.1"),
            [
                (replace(ROOMY, versions=frozenset({"v1.36", "v1.9"})), 0),
                (replace(ROOMY, is_ready=False, versions=frozenset({"v1.35"})), 0),
            ],
            Unschedulable("VersionNotOffered", "no worker offers version v1.29.1; offered: v1.9, v1.35, v1.36"),
        ),
        (
            ClusterRequirements(version="v1.29.1"),
            [(replace(ROOMY, versions=frozenset({"v1.36"})), 0), (replace(ROOMY, is_ready=False), 0)],
            Unschedulable("Unschedulable", "0 of 2 workers fit: 1 does not offer version v1.29.1, 1 is not ready"),
        ),
    ],
)
def test_why_nobody_fits(asked: ClusterRequirements, workers: list[tuple[Candidate, int]], told: Unschedulable) -> None:
    assert select_worker(view(asked), [(worker, WorkerUsage(used)) for worker, used in workers]) == told


def test_a_worker_as_a_candidate() -> None:
    worker: Object = {
        "metadata": {"name": "w", "labels": {"b": "2", "a": "1"}},
        "spec": {
            "capacity": 7,
            "location": "north",
            "taints": [{"key": "k", "effect": "NoExecute"}],
            "provides": ["embedded"],
            "versions": ["v1.36"],
            "allocatable": {"nodes": 20, "cpu": "1500m", "memory": "1Gi"},
            "cost": "0.25",
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }
    assert candidate_of(worker) == Candidate(
        name="w",
        capacity=7,
        location="north",
        labels=(("a", "1"), ("b", "2")),
        taints=(("k", "", "NoExecute"),),
        versions=frozenset({"v1.36"}),
        allocatable=(("cpu", 1500), ("memory", 2**30), ("nodes", 20)),
        cost=0.25,
    )
    assert not candidate_of({"metadata": {"name": "w"}, "spec": {}}).is_ready
    lost = {"metadata": {"name": "w"}, "spec": {}, "status": {"phase": "Lost"}}
    assert candidate_of(lost).is_lost


def test_what_a_cluster_asks_for() -> None:
    asked = requirements_of(
        cluster(spec={"nodes": 3, "location": "north", "preferredLocations": ["a"], "version": "v1.36.1"})
    )
    assert asked.requests == {"nodes": 3, "cpu": 12_000, "memory": 3 * 16 * 2**30}
    assert (asked.location, asked.preferred_locations, asked.version) == ("north", ("a",), "v1.36.1")
    assert requirements_of(cluster(spec={"nodes": 0})).requests == {}


def test_no_selector_and_an_empty_one_take_any_worker() -> None:
    assert run_filters(requirements_of(cluster()), ROOMY) is None
    assert run_filters(requirements_of(cluster(spec={"workerSelector": {}})), ROOMY) is None


def test_groups_are_namespaces_or_what_a_label_says() -> None:
    assert spread_group_of(cluster()) == "default"
    assert spread_group_of(cluster(labels={infrav1.SPREAD_GROUP: "shops"})) == "default/shops"


def test_a_selector_that_is_none_is_said() -> None:
    broken = requirements_of(cluster(spec={"workerSelector": {"matchLabels": {"not a label!": "x"}}}))
    told = select_worker(view(broken), [(ROOMY, FREE)])
    assert isinstance(told, Unschedulable)
    assert told.reason == "InvalidSelector"
    assert told.message.startswith("spec.workerSelector: key: Invalid value")


# --- what is written ---


def test_a_binding_is_one_status() -> None:
    assert bound_status(cluster(), "w", NOW) == {
        "phase": "Scheduled",
        "assignedWorker": "w",
        "lastWorker": "w",
        "epoch": 1,
        "conditions": [
            {
                "type": "Scheduled",
                "status": "True",
                "reason": "Bound",
                "message": "assigned to worker w",
                "observedGeneration": 1,
                "lastTransitionTime": NOW,
            }
        ],
    }


FULL = Unschedulable("NoFreeSlot", "0 of 1 worker fits: 1 has no free slot")


def test_a_binding_after_waiting_takes_the_errors_away_and_counts_on() -> None:
    waited = unschedulable_status(cluster(), FULL, NOW)
    assert waited is not None
    status = bound_status(cluster(status={**waited, "epoch": 4}), "w", NOW)
    assert "errors" not in status
    assert status["epoch"] == 5


def test_waiting_says_why_once() -> None:
    status = unschedulable_status(cluster(), FULL, NOW)
    assert status is not None
    assert status["phase"] == "Pending"
    assert status["errors"] == [{"time": NOW, "reason": "NoFreeSlot", "message": FULL.message}]
    assert status["conditions"] == [
        {
            "type": "Scheduled",
            "status": "False",
            "reason": "NoFreeSlot",
            "message": FULL.message,
            "observedGeneration": 1,
            "lastTransitionTime": NOW,
        }
    ]
    assert unschedulable_status(cluster(status=status), FULL, "2026-11-15T12:00:09Z") is None


BOUND = {"phase": "Running", "assignedWorker": "gone", "epoch": 1}
HELD = [infrav1.MANAGED_CLUSTER_FINALIZER]


@pytest.mark.parametrize(
    ("obj", "decision"),
    [
        (cluster(), ManagedClusterUpdate()),
        (cluster(status=BOUND, finalizers=HELD), ManagedClusterUpdate()),
        (cluster(status=BOUND), ManagedClusterUpdate(finalizer=True)),
        (cluster(deletionTimestamp=NOW, finalizers=HELD), ManagedClusterUpdate(finalizer=False)),
        (cluster(deletionTimestamp=NOW, finalizers=["somebody.else/holds"]), ManagedClusterUpdate()),
        (
            cluster(deletionTimestamp=NOW, status=BOUND, finalizers=HELD),
            ManagedClusterUpdate(status={**BOUND, "phase": "Terminating"}),
        ),
        (cluster(deletionTimestamp=NOW, status={**BOUND, "phase": "Terminating"}), ManagedClusterUpdate()),
    ],
    ids=["waits", "bound", "finalizer-lost", "deleted-unbound", "held-by-another", "deleted-bound", "terminating"],
)
def test_what_is_bound_stays_and_what_goes_goes(obj: Object, decision: ManagedClusterUpdate) -> None:
    assert finalizer_and_phase(obj) == decision


# --- a new Worker ---

ALLOWED = parse_auto_worker_settings({"data": {"max": "2", "capacity": "5"}})
NORTH = ClusterRequirements(location="north", selector=parse_label_selector("disk=ssd"))


def test_nothing_is_made_unless_it_is_allowed() -> None:
    assert parse_auto_worker_settings(None).max_workers == 0
    assert decide_scale_up(NORTH, FULL, [], parse_auto_worker_settings(None)).unschedulable is FULL
    assert decide_scale_up(NORTH, FULL, [], parse_auto_worker_settings({"data": {}})).worker is None


def test_a_worker_is_made_for_what_is_asked() -> None:
    found = decide_scale_up(NORTH, FULL, [ROOMY], ALLOWED)
    assert found.worker is not None
    name, labels = found.worker["metadata"]["name"], found.worker["metadata"]["labels"]
    assert name == f"auto-{labels[infrav1.AUTO_WORKER_LABEL]}-1"
    assert labels == {"disk": "ssd", infrav1.AUTO_WORKER_LABEL: labels[infrav1.AUTO_WORKER_LABEL]}
    spec = found.worker["spec"]
    assert (spec["infrastructure"], spec["capacity"], spec["location"]) == ("process", 5, "north")
    assert found.unschedulable == Unschedulable(
        "WaitingForWorker", f"waiting for worker {name}, which is starting; {FULL.message}"
    )
    made = candidate_of(found.worker)
    assert run_filters(NORTH, replace(made, is_ready=True)) is None
    assert decide_scale_up(NORTH, FULL, [ROOMY], ALLOWED) == found, "the same name again"
    again = decide_scale_up(NORTH, FULL, [ROOMY, made], ALLOWED)
    assert again.worker is None, "one at a time"
    assert again.unschedulable == found.unschedulable
    stuck = decide_scale_up(NORTH, FULL, [replace(made, supervisor_error="no disk")], ALLOWED)
    assert stuck.unschedulable.message == f"waiting for worker {name}, which is not running: no disk; {FULL.message}"
    full = decide_scale_up(NORTH, FULL, [ROOMY, replace(made, is_ready=True)], ALLOWED)
    assert full.worker is not None
    assert full.worker["metadata"]["name"] == name.removesuffix("1") + "2"
    lost = decide_scale_up(NORTH, FULL, [replace(made, is_lost=True)], ALLOWED)
    assert lost.worker is not None, "one that fell silent is not waited for"
    two = [replace(made, is_ready=True), replace(made, is_ready=True, name="auto-x-1")]
    limit = decide_scale_up(NORTH, FULL, two, ALLOWED)
    assert limit.worker is None
    said = f"{FULL.message}; the limit of 2 auto-created workers is reached"
    assert limit.unschedulable == Unschedulable(FULL.reason, said)


@pytest.mark.parametrize(
    "asked",
    [
        ClusterRequirements(infrastructure="kind"),
        ClusterRequirements(version="v1.10.1"),
        ClusterRequirements(selector=parse_label_selector("!shoal.dev/auto-worker")),
        ClusterRequirements(selector_error="not understood"),
    ],
    ids=["kind", "version", "selector", "wrong"],
)
def test_no_worker_is_made_that_would_not_do(asked: ClusterRequirements) -> None:
    assert decide_scale_up(asked, FULL, [], ALLOWED).unschedulable is FULL


def test_a_setting_that_is_no_number_is_said() -> None:
    found = decide_scale_up(NORTH, FULL, [], parse_auto_worker_settings({"data": {"max": "many"}}))
    assert found.worker is None
    assert (
        found.unschedulable.message
        == f"{FULL.message}; ConfigMap shoal-system/auto-workers: max is not a number: 'many'"
    )
    assert parse_auto_worker_settings({"data": {"max": "1", "capacity": "0"}}).settings_error.endswith(
        "capacity is 0: such a Worker takes no clusters"
    )
