"""Scheduling decisions: filters, scores, the message when no Worker fits, and the written status."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from shoal.fleet.scheduler.candidate import Candidate, Company, Usage, candidate, group_of
from shoal.fleet.scheduler.decide import Decision, Waiting, bound, choose, level, waiting
from shoal.fleet.scheduler.demand import Demand, demand
from shoal.fleet.scheduler.filters import refusal, room
from shoal.fleet.scheduler.growth import grow, setting
from shoal.fleet.scheduler.scores import WEIGHTS, View, scores
from shoal.kinds import fleet
from shoal.objects.selectors import parse_labels

Object = dict[str, Any]
NOW = "2026-11-15T12:00:00Z"

ROOMY = Candidate("w", capacity=2)
TAINTED = replace(ROOMY, taints=(("team", "a", "NoSchedule"),))
NOT_TOLERATED = "has the taint team=a:NoSchedule that is not tolerated"
LIMITED = replace(ROOMY, allocatable=(("cpu", 8000), ("nodes", 3)))


def cluster(name: str = "east", spec: Object | None = None, status: Object | None = None, **metadata: Any) -> Object:
    meta = {"name": name, "namespace": "default", "generation": 1, "uid": f"u-{name}", "resourceVersion": "1"}
    obj: Object = {"metadata": {**meta, **metadata}, "spec": {"infrastructure": "embedded", **(spec or {})}}
    return {**obj, "status": status} if status is not None else obj


def why_not(asked: Demand, worker: Candidate, used: Usage) -> str:
    found = refusal(asked, worker) or room(asked, worker, used)
    return found.one if found is not None else ""


@pytest.mark.parametrize(
    ("asked", "worker", "used", "why"),
    [
        (Demand(), ROOMY, 0, ""),
        (Demand(), ROOMY, 1, ""),
        (Demand(), ROOMY, 2, "has no free slot"),
        (Demand(), ROOMY, 3, "has no free slot"),
        (Demand(), replace(ROOMY, capacity=0), 0, "takes no clusters (capacity 0)"),
        (Demand(), replace(ROOMY, ready=False), 0, "is not ready"),
        (Demand(), replace(ROOMY, leaving=True), 0, "is being deleted"),
        (Demand(), replace(ROOMY, cordoned=True), 0, "is cordoned"),
        (Demand(infrastructure="kind"), ROOMY, 0, "does not provide infrastructure kind"),
        (Demand(infrastructure="kind"), replace(ROOMY, provides=frozenset({"kind"})), 0, ""),
        (Demand(location="north"), ROOMY, 0, "is not in location north"),
        (Demand(location="north"), replace(ROOMY, location="north"), 0, ""),
        (Demand(), replace(ROOMY, location="north"), 0, ""),
        (Demand(selector=parse_labels("disk=ssd")), ROOMY, 0, "does not match workerSelector"),
        (Demand(selector=parse_labels("disk=ssd")), replace(ROOMY, labels=(("disk", "ssd"),)), 0, ""),
        (Demand(), TAINTED, 0, NOT_TOLERATED),
        (Demand(tolerations=({"key": "team", "operator": "Exists"},)), TAINTED, 0, ""),
        (Demand(tolerations=({"key": "team", "value": "b"},)), TAINTED, 0, NOT_TOLERATED),
        (Demand(), replace(ROOMY, taints=(("team", "a", "PreferNoSchedule"),)), 0, ""),
        (Demand(version="v1.35.2"), ROOMY, 0, ""),
        (Demand(version="v1.35.2"), replace(ROOMY, versions=frozenset({"v1.35"})), 0, ""),
        (Demand(version="v1.35.2"), replace(ROOMY, versions=frozenset({"v1.35.2"})), 0, ""),
        (Demand(), replace(ROOMY, versions=frozenset({"v1.36"})), 0, ""),
        (
            Demand(version="v1.35.2"),
            replace(ROOMY, versions=frozenset({"v1.36", "v1.3"})),
            0,
            "does not offer version v1.35.2",
        ),
        (Demand(need={"nodes": 3, "cpu": 8000, "memory": 9}), LIMITED, 0, ""),
        (Demand(need={"nodes": 3, "cpu": 9000}), LIMITED, 0, "has less than 9 cpu left"),
        (Demand(need={"nodes": 4, "cpu": 0}), LIMITED, 0, "has less than 4 nodes left"),
    ],
)
def test_refusals(asked: Demand, worker: Candidate, used: int, why: str) -> None:
    assert why_not(asked, worker, Usage(used)) == why


def test_what_is_taken_of_a_resource_is_not_given_again() -> None:
    asked = Demand(need={"nodes": 2})
    assert why_not(asked, LIMITED, Usage(1, Counter(nodes=1))) == ""
    assert why_not(asked, LIMITED, Usage(1, Counter(nodes=2))) == "has less than 2 nodes left"
    assert why_not(Demand(), LIMITED, Usage(1, Counter(nodes=9))) == "", "it asks for none of it"


def view(asked: Demand | None = None, company: Company | None = None, last: str = "", cheapest: float = 0.0) -> View:
    return View(asked or Demand(), company or Company(), last, cheapest)


def beside(**workers: int) -> Company:
    company = Company()
    for name, number in workers.items():
        company.add(name, f"in-{name}", number)
    return company


A, B = Candidate("a", 10, location="in-a"), Candidate("b", 10, location="in-b")
FREE = Usage()


@pytest.mark.parametrize(
    ("seen", "a", "b", "best"),
    [
        (view(), (A, FREE), (B, FREE), "a"),
        (view(), (A, Usage(1)), (B, FREE), "b"),
        (view(), (replace(A, capacity=100), Usage(40)), (B, Usage(5)), "a"),
        (view(Demand(preferred=("in-b",))), (A, FREE), (B, Usage(5)), "b"),
        (view(Demand(preferred=("in-b", "in-a"))), (A, FREE), (B, FREE), "b"),
        (view(), (replace(A, taints=(("t", "", "PreferNoSchedule"),)), FREE), (B, Usage(2)), "b"),
        (view(cheapest=1.0), (replace(A, cost=2.0), FREE), (replace(B, cost=1.0), FREE), "b"),
        (view(cheapest=2.0), (replace(A, cost=2.0), FREE), (B, FREE), "a"),
        (view(company=beside(a=1)), (A, Usage(1)), (B, Usage(1)), "b"),
        (view(last="b"), (A, FREE), (B, FREE), "b"),
        (view(last="gone"), (A, FREE), (B, FREE), "a"),
        (
            view(Demand(need={"nodes": 2})),
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
def test_who_is_best(seen: View, a: tuple[Candidate, Usage], b: tuple[Candidate, Usage], best: str) -> None:
    assert choose(seen, [a, b]) == choose(seen, [b, a]) == best


def test_locations_share_a_group_evenly() -> None:
    """Two Workers here and one there: the second cluster of a group goes to the other location."""
    here, too = replace(A, location="here"), replace(B, location="here")
    there = Candidate("c", 10, location="there")
    company = Company()
    company.add("a", "here", 1)
    assert choose(view(company=company), [(here, Usage(1)), (too, FREE), (there, FREE)]) == "c"


def test_every_score_has_a_weight_and_is_told() -> None:
    assert set(scores(view(), A, FREE)) == set(WEIGHTS)


@pytest.mark.parametrize(
    ("asked", "workers", "told"),
    [
        (
            Demand(),
            [],
            Waiting("NoWorkers", "there are no workers: start one with shoal worker, or shoal up --workers N"),
        ),
        (Demand(), [(ROOMY, 2)], Waiting("NoFreeSlot", "0 of 1 worker fits: 1 has no free slot")),
        (
            Demand(),
            [(ROOMY, 2), (ROOMY, 2), (replace(ROOMY, ready=False), 0)],
            Waiting("Unschedulable", "0 of 3 workers fit: 2 have no free slot, 1 is not ready"),
        ),
        (
            Demand(),
            [(replace(ROOMY, capacity=0), 0), (replace(ROOMY, capacity=0), 0)],
            Waiting("NoFreeSlot", "0 of 2 workers fit: 2 take no clusters (capacity 0)"),
        ),
        (
            Demand(selector=parse_labels("disk=ssd")),
            [(ROOMY, 0)],
            Waiting("SelectorMatchesNothing", "0 of 1 worker fits: 1 does not match workerSelector"),
        ),
        (
            Demand(version="v1.29.1"),
            [
                (replace(ROOMY, versions=frozenset({"v1.36", "v1.9"})), 0),
                (replace(ROOMY, ready=False, versions=frozenset({"v1.35"})), 0),
            ],
            Waiting("VersionNotOffered", "no worker offers version v1.29.1; offered: v1.9, v1.35, v1.36"),
        ),
        (
            Demand(version="v1.29.1"),
            [(replace(ROOMY, versions=frozenset({"v1.36"})), 0), (replace(ROOMY, ready=False), 0)],
            Waiting("Unschedulable", "0 of 2 workers fit: 1 does not offer version v1.29.1, 1 is not ready"),
        ),
    ],
)
def test_why_nobody_fits(asked: Demand, workers: list[tuple[Candidate, int]], told: Waiting) -> None:
    assert choose(view(asked), [(worker, Usage(used)) for worker, used in workers]) == told


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
    assert candidate(worker) == Candidate(
        name="w",
        capacity=7,
        location="north",
        labels=(("a", "1"), ("b", "2")),
        taints=(("k", "", "NoExecute"),),
        versions=frozenset({"v1.36"}),
        allocatable=(("cpu", 1500), ("memory", 2**30), ("nodes", 20)),
        cost=0.25,
    )
    assert not candidate({"metadata": {"name": "w"}, "spec": {}}).ready
    lost = {"metadata": {"name": "w"}, "spec": {}, "status": {"phase": "Lost"}}
    assert candidate(lost).lost


def test_what_a_cluster_asks_for() -> None:
    asked = demand(cluster(spec={"nodes": 3, "location": "north", "preferredLocations": ["a"], "version": "v1.36.1"}))
    assert asked.need == {"nodes": 3, "cpu": 12_000, "memory": 3 * 16 * 2**30}
    assert (asked.location, asked.preferred, asked.version) == ("north", ("a",), "v1.36.1")
    assert demand(cluster(spec={"nodes": 0})).need == {}


def test_no_selector_and_an_empty_one_take_any_worker() -> None:
    assert refusal(demand(cluster()), ROOMY) is None
    assert refusal(demand(cluster(spec={"workerSelector": {}})), ROOMY) is None


def test_groups_are_namespaces_or_what_a_label_says() -> None:
    assert group_of(cluster()) == "default"
    assert group_of(cluster(labels={fleet.SPREAD_GROUP: "shops"})) == "default/shops"


def test_a_selector_that_is_none_is_said() -> None:
    broken = demand(cluster(spec={"workerSelector": {"matchLabels": {"not a label!": "x"}}}))
    told = choose(view(broken), [(ROOMY, FREE)])
    assert isinstance(told, Waiting)
    assert told.reason == "InvalidSelector"
    assert told.message.startswith("spec.workerSelector: key: Invalid value")


# --- what is written ---


def test_a_binding_is_one_status() -> None:
    assert bound(cluster(), "w", NOW) == {
        "phase": "Scheduled",
        "assignedWorker": "w",
        "lastWorker": "w",
        "epoch": 1,
        "conditions": [
            {
                "type": "Scheduled",
                "status": "True",
                "reason": "Bound",
                "message": "given to worker w",
                "observedGeneration": 1,
                "lastTransitionTime": NOW,
            }
        ],
    }


FULL = Waiting("NoFreeSlot", "0 of 1 worker fits: 1 has no free slot")


def test_a_binding_after_waiting_takes_the_errors_away_and_counts_on() -> None:
    waited = waiting(cluster(), FULL, NOW)
    assert waited is not None
    status = bound(cluster(status={**waited, "epoch": 4}), "w", NOW)
    assert "errors" not in status
    assert status["epoch"] == 5


def test_waiting_says_why_once() -> None:
    status = waiting(cluster(), FULL, NOW)
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
    assert waiting(cluster(status=status), FULL, "2026-11-15T12:00:09Z") is None


BOUND = {"phase": "Running", "assignedWorker": "gone", "epoch": 1}
HELD = [fleet.FINALIZER]


@pytest.mark.parametrize(
    ("obj", "decision"),
    [
        (cluster(), Decision()),
        (cluster(status=BOUND, finalizers=HELD), Decision()),
        (cluster(status=BOUND), Decision(finalizer=True)),
        (cluster(deletionTimestamp=NOW, finalizers=HELD), Decision(finalizer=False)),
        (cluster(deletionTimestamp=NOW, finalizers=["somebody.else/holds"]), Decision()),
        (
            cluster(deletionTimestamp=NOW, status=BOUND, finalizers=HELD),
            Decision(status={**BOUND, "phase": "Terminating"}),
        ),
        (cluster(deletionTimestamp=NOW, status={**BOUND, "phase": "Terminating"}), Decision()),
    ],
    ids=["waits", "bound", "finalizer-lost", "deleted-unbound", "held-by-another", "deleted-bound", "terminating"],
)
def test_what_is_bound_stays_and_what_goes_goes(obj: Object, decision: Decision) -> None:
    assert level(obj) == decision


# --- a new Worker ---

ALLOWED = setting({"data": {"max": "2", "capacity": "5"}})
NORTH = Demand(location="north", selector=parse_labels("disk=ssd"))


def test_nothing_is_made_unless_it_is_allowed() -> None:
    assert setting(None).maximum == 0
    assert grow(NORTH, FULL, [], setting(None)).because is FULL
    assert grow(NORTH, FULL, [], setting({"data": {}})).worker is None


def test_a_worker_is_made_for_what_is_asked() -> None:
    found = grow(NORTH, FULL, [ROOMY], ALLOWED)
    assert found.worker is not None
    name, labels = found.worker["metadata"]["name"], found.worker["metadata"]["labels"]
    assert name == f"auto-{labels[fleet.AUTO_WORKER]}-1"
    assert labels == {"disk": "ssd", fleet.AUTO_WORKER: labels[fleet.AUTO_WORKER]}
    spec = found.worker["spec"]
    assert (spec["infrastructure"], spec["capacity"], spec["location"]) == ("process", 5, "north")
    assert found.because == Waiting(
        "WaitingForWorker", f"waits for worker {name}, which is being started; {FULL.message}"
    )
    made = candidate(found.worker)
    assert refusal(NORTH, replace(made, ready=True)) is None
    assert grow(NORTH, FULL, [ROOMY], ALLOWED) == found, "the same name again"
    again = grow(NORTH, FULL, [ROOMY, made], ALLOWED)
    assert again.worker is None, "one at a time"
    assert again.because == found.because
    stuck = grow(NORTH, FULL, [replace(made, trouble="no disk")], ALLOWED)
    assert stuck.because.message == f"waits for worker {name}, which does not run: no disk; {FULL.message}"
    full = grow(NORTH, FULL, [ROOMY, replace(made, ready=True)], ALLOWED)
    assert full.worker is not None
    assert full.worker["metadata"]["name"] == name.removesuffix("1") + "2"
    lost = grow(NORTH, FULL, [replace(made, lost=True)], ALLOWED)
    assert lost.worker is not None, "one that fell silent is not waited for"
    two = [replace(made, ready=True), replace(made, ready=True, name="auto-x-1")]
    limit = grow(NORTH, FULL, two, ALLOWED)
    assert limit.worker is None
    said = f"{FULL.message}; auto-creation has reached its limit of 2"
    assert limit.because == Waiting(FULL.reason, said)


@pytest.mark.parametrize(
    "asked",
    [
        Demand(infrastructure="kind"),
        Demand(version="v1.10.1"),
        Demand(selector=parse_labels("!shoal.dev/auto-worker")),
        Demand(wrong="not understood"),
    ],
    ids=["kind", "version", "selector", "wrong"],
)
def test_no_worker_is_made_that_would_not_do(asked: Demand) -> None:
    assert grow(asked, FULL, [], ALLOWED).because is FULL


def test_a_setting_that_is_no_number_is_said() -> None:
    found = grow(NORTH, FULL, [], setting({"data": {"max": "many"}}))
    assert found.worker is None
    assert found.because.message == f"{FULL.message}; ConfigMap shoal-system/auto-workers: max is no number: 'many'"
    assert setting({"data": {"max": "1", "capacity": "0"}}).wrong.endswith(
        "capacity is 0: such a Worker takes no clusters"
    )
