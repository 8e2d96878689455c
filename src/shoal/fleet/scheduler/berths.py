"""Capacity reservations on target Workers for migrations: the scheduler's filters and the scheduler's cache."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from shoal.client.reflector import Key
from shoal.fleet.scheduler.candidate import Candidate, Company, Usage
from shoal.fleet.scheduler.decide import UNSCHEDULABLE, Waiting, choose
from shoal.fleet.scheduler.demand import Demand
from shoal.fleet.scheduler.filters import refusal, room
from shoal.fleet.scheduler.ledger import Ledger, Record
from shoal.fleet.scheduler.scores import View

Object = dict[str, Any]


class Berths:
    def __init__(self, ledger: Ledger, note: Callable[[Key, Object | None], None]) -> None:
        self._ledger = ledger
        self.note = note
        """Passes a written object to the scheduler before the watch delivers it."""

    def elsewhere(self, key: Key, able: Callable[[str], bool]) -> str | Waiting:
        """Returns the Worker that would be selected if its current one did not exist. `can_restore` says which Workers
        can take over a cluster.
        """
        record = self._ledger.records.get(key)
        if record is None:
            return Waiting(UNSCHEDULABLE, "it is not known yet")
        others = [each for each in self._ledger.workers() if each[0].name not in record.where]
        if others and not any(able(worker.name) for worker, _ in others):
            return Waiting("WorkersCannotRestore", "no other worker keeps its data so that it can take over a cluster")
        others = [each for each in others if able(each[0].name)]
        view = View(record.asked, self._company(record), "", self._ledger.cheapest)
        return choose(view, others)

    def _company(self, record: Record) -> Company:
        """Returns the spread counts of its group without the ManagedCluster itself."""
        known = self._ledger.companies.get(record.group) or Company()
        company = Company(Counter(known.workers), Counter(known.locations), known.total)
        for name in record.where:
            company.add(name, self._ledger.places[name].location, -1)
        return company

    def unfit(self, key: Key, worker: str) -> str:
        """Returns why that Worker, on which capacity is reserved already, cannot host it after all; empty if it can."""
        record, place = self._ledger.records.get(key), self._ledger.places.get(worker)
        if record is None or place is None or place.candidate is None:
            return "there is no such worker"
        found = refusal(record.asked, place.candidate)
        return f"it {found.one}" if found is not None else ""

    def has_room(self, key: Key, worker: str) -> bool:
        record, place = self._ledger.records.get(key), self._ledger.places.get(worker)
        if record is None or place is None or place.candidate is None:
            return False
        fitting = not record.asked.wrong and refusal(record.asked, place.candidate) is None
        return fitting and room(record.asked, place.candidate, place.used) is None

    def reserve(self, key: Key, worker: str) -> None:
        """Reserves capacity at once, until the object shows it or `release` is called."""
        record = self._ledger.records.get(key)
        if record is not None:
            self._ledger.reserve(record, worker)

    def release(self, key: Key) -> None:
        self.reserve(key, "")

    def workers(self) -> list[tuple[Candidate, Usage]]:
        return list(self._ledger.workers())

    def asked(self, key: Key) -> Demand | None:
        record = self._ledger.records.get(key)
        return record.asked if record is not None else None
