"""Room on other Workers for those that are moved: by the scheduler's rules, and in the same book as its bindings."""

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
        """Tells the scheduler of an object that was written, before the watch does."""

    def elsewhere(self, key: Key, able: Callable[[str], bool]) -> str | Waiting:
        """The Worker that would be chosen for it if its own were not there. `able`: who can take over another's."""
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
        """Without itself."""
        known = self._ledger.companies.get(record.group) or Company()
        company = Company(Counter(known.workers), Counter(known.locations), known.total)
        for name in record.where:
            company.add(name, self._ledger.places[name].location, -1)
        return company

    def unfit(self, key: Key, worker: str) -> str:
        """Why that Worker, which has room for it already, cannot have it after all; empty: it can."""
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
        """Counts at once, until the object says so or `release`."""
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
