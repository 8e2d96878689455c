"""Which Worker hosts a ManagedCluster: filters, the least loaded, the words when nobody fits, what is written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.fleet.scheduler.decide import Candidate, Choice, Decision, Demand, candidate, choose, decide, demand, refusal
from shoal.fleet.scheduler.ledger import Ledger
from shoal.kinds import fleet
from shoal.objects.selectors import parse_labels

Object = dict[str, Any]
NOW = "2026-11-15T12:00:00Z"

ROOMY = Candidate("w", capacity=2)
TAINTED = replace(ROOMY, taints=(("team", "a", "NoSchedule"),))
NOT_TOLERATED = "has the taint team=a:NoSchedule that is not tolerated"


def cluster(name: str = "east", spec: Object | None = None, status: Object | None = None, **metadata: Any) -> Object:
    meta = {"name": name, "namespace": "default", "generation": 1, "uid": f"u-{name}", "resourceVersion": "1"}
    obj: Object = {"metadata": {**meta, **metadata}, "spec": {"infrastructure": "embedded", **(spec or {})}}
    return {**obj, "status": status} if status is not None else obj


@pytest.mark.parametrize(
    ("asked", "worker", "why"),
    [
        (Demand(), ROOMY, ""),
        (Demand(), replace(ROOMY, used=1), ""),
        (Demand(), replace(ROOMY, used=2), "has no free slot"),
        (Demand(), replace(ROOMY, used=3), "has no free slot"),
        (Demand(), replace(ROOMY, capacity=0), "has no free slot"),
        (Demand(), replace(ROOMY, ready=False), "is not ready"),
        (Demand(), replace(ROOMY, leaving=True), "is being deleted"),
        (Demand(infrastructure="kind"), ROOMY, "does not provide infrastructure kind"),
        (Demand(infrastructure="kind"), replace(ROOMY, provides=frozenset({"kind"})), ""),
        (Demand(location="north"), ROOMY, "is not in location north"),
        (Demand(location="north"), replace(ROOMY, location="north"), ""),
        (Demand(), replace(ROOMY, location="north"), ""),
        (Demand(selector=parse_labels("disk=ssd")), ROOMY, "does not match workerSelector"),
        (Demand(selector=parse_labels("disk=ssd")), replace(ROOMY, labels=(("disk", "ssd"),)), ""),
        (Demand(), TAINTED, NOT_TOLERATED),
        (Demand(tolerations=({"key": "team", "operator": "Exists"},)), TAINTED, ""),
        (Demand(tolerations=({"key": "team", "value": "b"},)), TAINTED, NOT_TOLERATED),
        (Demand(), replace(ROOMY, taints=(("team", "a", "PreferNoSchedule"),)), ""),
    ],
)
def test_refusals(asked: Demand, worker: Candidate, why: str) -> None:
    assert refusal(asked, worker)[0] == why


def test_the_least_loaded_by_share_wins_and_ties_go_by_name() -> None:
    big, small = Candidate("big", capacity=10, used=4), Candidate("small", capacity=2, used=1)
    assert choose(Demand(), [small, big]) == Choice("big")
    assert choose(Demand(), [Candidate("b", 3), Candidate("a", 5)]) == Choice("a")


@pytest.mark.parametrize(
    ("workers", "message"),
    [
        ([], "there are no workers: start one with shoal worker, or shoal up --workers N"),
        ([replace(ROOMY, used=2)], "0 of 1 worker fits: 1 has no free slot"),
        (
            [replace(ROOMY, used=2), replace(ROOMY, used=2), replace(ROOMY, ready=False)],
            "0 of 3 workers fit: 2 have no free slot, 1 is not ready",
        ),
    ],
)
def test_why_nobody_fits(workers: list[Candidate], message: str) -> None:
    assert choose(Demand(), workers) == Choice(message=message)


def test_a_worker_as_a_candidate() -> None:
    worker: Object = {
        "metadata": {"name": "w", "labels": {"b": "2", "a": "1"}},
        "spec": {
            "capacity": 7,
            "location": "north",
            "taints": [{"key": "k", "effect": "NoExecute"}],
            "provides": ["embedded"],
        },
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    assert candidate(worker, 3) == Candidate(
        "w", 7, 3, True, False, "north", (("a", "1"), ("b", "2")), (("k", "", "NoExecute"),), frozenset({"embedded"})
    )
    assert not candidate({"metadata": {"name": "w"}, "spec": {}}, 0).ready


def test_no_selector_and_an_empty_one_take_any_worker() -> None:
    assert refusal(demand(cluster()), ROOMY)[0] == ""
    assert refusal(demand(cluster(spec={"workerSelector": {}})), ROOMY)[0] == ""


def test_a_binding_is_the_finalizer_and_one_status() -> None:
    decision = decide(cluster(), [ROOMY], NOW)
    assert decision.finalizer is True
    assert decision.status == {
        "phase": "Provisioning",
        "assignedWorker": "w",
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


def test_a_binding_after_waiting_takes_the_errors_away_and_counts_on() -> None:
    waited = decide(cluster(), [], NOW).status
    assert waited is not None
    assert waited["errors"][0]["reason"] == "Unschedulable"
    decision = decide(cluster(status={**waited, "epoch": 4}, finalizers=[fleet.FINALIZER]), [ROOMY], NOW)
    assert decision.finalizer is None
    assert decision.status is not None
    assert "errors" not in decision.status
    assert decision.status["epoch"] == 5


def test_waiting_says_why_once() -> None:
    decision = decide(cluster(), [replace(ROOMY, used=2)], NOW)
    message = "0 of 1 worker fits: 1 has no free slot"
    assert decision.finalizer is None
    assert decision.status is not None
    assert decision.status["phase"] == "Pending"
    assert decision.status["errors"] == [{"time": NOW, "reason": "Unschedulable", "message": message}]
    assert decision.status["conditions"][0] | {"lastTransitionTime": ""} == {
        "type": "Scheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "observedGeneration": 1,
        "lastTransitionTime": "",
    }
    later = decide(cluster(status=decision.status), [replace(ROOMY, used=2)], "2026-11-15T12:00:09Z")
    assert later == Decision()


def test_a_selector_that_is_none_is_said() -> None:
    broken = cluster(spec={"workerSelector": {"matchLabels": {"not a label!": "x"}}})
    status = decide(broken, [ROOMY], NOW).status
    assert status is not None
    assert status["phase"] == "Pending"
    assert status["errors"][0]["message"].startswith("spec.workerSelector: key: Invalid value")


BOUND = {"phase": "Running", "assignedWorker": "gone", "epoch": 1}


@pytest.mark.parametrize(
    ("obj", "decision"),
    [
        (cluster(status=BOUND), Decision()),
        (cluster(deletionTimestamp=NOW, finalizers=[fleet.FINALIZER]), Decision(finalizer=False)),
        (cluster(deletionTimestamp=NOW, finalizers=["somebody.else/holds"]), Decision()),
        (
            cluster(deletionTimestamp=NOW, status=BOUND, finalizers=[fleet.FINALIZER]),
            Decision(status={**BOUND, "phase": "Terminating"}),
        ),
        (cluster(deletionTimestamp=NOW, status={**BOUND, "phase": "Terminating"}), Decision()),
    ],
    ids=["bound", "deleted-unbound", "held-by-another", "deleted-bound", "terminating"],
)
def test_what_is_bound_stays_and_what_goes_goes(obj: Object, decision: Decision) -> None:
    assert decide(obj, [ROOMY], NOW) == decision


# --- properties ---

workers_ = st.lists(
    st.builds(
        Candidate,
        name=st.sampled_from("abcdef"),
        capacity=st.integers(0, 4),
        ready=st.booleans(),
        leaving=st.booleans(),
        location=st.sampled_from(["", "north"]),
    ),
    max_size=6,
    unique_by=lambda worker: worker.name,
)


@given(workers_, st.lists(st.sampled_from(["", "north"]), max_size=20))
def test_no_worker_is_ever_over_capacity(workers: list[Candidate], locations: list[str]) -> None:
    there = {worker.name: worker for worker in workers}
    for location in locations:
        asked = Demand(location=location)
        choice = choose(asked, there.values())
        fits = [worker for worker in there.values() if not refusal(asked, worker)[0]]
        assert bool(choice.worker) == bool(fits)
        assert bool(choice.message) == (not fits)
        if choice.worker:
            chosen = there[choice.worker]
            assert chosen in fits
            assert all(chosen.used / chosen.capacity <= other.used / other.capacity for other in fits)
            there[chosen.name] = replace(chosen, used=chosen.used + 1)
    assert all(worker.used <= worker.capacity for worker in there.values())
    assert all(not worker.used for worker in there.values() if not worker.ready or worker.leaving)


def worker_object(name: str, capacity: int) -> Object:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    return {
        "metadata": {"name": name, "namespace": "shoal-system"},
        "spec": {"capacity": capacity, "provides": ["embedded"]},
        "status": ready,
    }


events = st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["", "a", "b", "gone"]), st.integers(1, 9)), max_size=40)


@given(events)
def test_the_ledger_is_what_the_objects_say(told: list[tuple[int, str, int]]) -> None:
    """Events may come twice, late and out of order: what counts is the newest state of each object."""
    ledger = Ledger()
    for name in "ab":
        ledger.note_worker(("", "shoal-system", name), worker_object(name, 3))
    newest: dict[int, tuple[int, str]] = {}
    for number, where, revision in told:
        key = ("", "default", f"c{number}")
        if where == "gone":
            newest.pop(number, None)
            ledger.note_managed(key, None)
            continue
        if number not in newest or revision >= newest[number][0]:
            newest[number] = revision, where
        status = {"assignedWorker": where} if where else {}
        ledger.note_managed(key, cluster(f"c{number}", status=status, resourceVersion=str(revision)))
    for name in "ab":
        assert ledger.used(name) == sum(where == name for _, where in newest.values())
    assert {c.name: c.used for c in ledger.candidates()} == {name: ledger.used(name) for name in "ab"}
    assert {key[2] for key in ledger.waiting()} == {f"c{number}" for number, (_, where) in newest.items() if not where}


def test_a_slot_that_becomes_free_is_told() -> None:
    ledger = Ledger()
    worker = ("", "shoal-system", "a")
    assert ledger.note_worker(worker, worker_object("a", 1))
    assert not ledger.note_worker(worker, worker_object("a", 1))
    bound = cluster(status={"assignedWorker": "a"}, resourceVersion="2")
    assert not ledger.note_managed(("", "default", "east"), bound)
    assert ledger.note_managed(("", "default", "east"), None)
    assert ledger.note_worker(worker, None)


def test_a_worker_elsewhere_is_no_candidate() -> None:
    ledger = Ledger()
    assert not ledger.note_worker(("", "default", "a"), worker_object("a", 1))
    assert list(ledger.candidates()) == []


def test_those_who_wait_are_in_order_of_arrival() -> None:
    ledger = Ledger()
    for name, second in (("b", "09"), ("a", "09"), ("z", "01")):
        obj = cluster(name, creationTimestamp=f"2026-11-15T12:00:{second}Z")
        ledger.note_managed(("", "default", name), obj)
    assert [key[2] for key in ledger.waiting()] == ["z", "a", "b"]
