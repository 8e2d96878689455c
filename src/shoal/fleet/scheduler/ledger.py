"""Who is hosted where, and what that leaves free: kept from the objects as they are seen, never counted on their own.

Each ManagedCluster counts once, where its object says or where the scheduler is about to put it (assumed, for a
while). One that is on its way from a Worker to another has room on both. An event seen twice, late or not at all leaks
no slot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from shoal.client.reflector import Key
from shoal.fleet.scheduler.candidate import Candidate, Company, Usage, candidate, group_of
from shoal.fleet.scheduler.decide import Waiting
from shoal.fleet.scheduler.demand import Demand, Demands
from shoal.kinds import fleet

Object = dict[str, Any]

ASSUMED_SECONDS = 30.0
"""How long a binding counts of which nothing is heard, neither from the API nor from the watch."""
LOG = 10_000


@dataclass(slots=True, eq=False)
class Record:
    """What is known of a ManagedCluster."""

    key: Key
    obj: Object | None
    """Only of one that is not bound: of the others there are many, and nothing of theirs is written here."""
    revision: int
    asked: Demand
    group: str
    order: tuple[str, Key]
    """Whoever came first is looked at first."""
    last: str = ""
    """The Worker it was on before."""
    bound: str = ""
    assumed: str = ""
    coming: str = ""
    """The Worker it is to be moved to, or about to be."""
    where: tuple[str, ...] = ()
    """Where it is counted."""
    deleting: bool = False
    told: Waiting | None = None
    """What it was last told about its waiting."""

    @property
    def homeless(self) -> bool:
        return not (self.bound or self.assumed or self.deleting)


@dataclass(slots=True)
class Place:
    """A Worker by name; it may be unknown, with ManagedClusters that name it all the same."""

    candidate: Candidate | None = None
    used: Usage = field(default_factory=Usage)
    hosted: set[Key] = field(default_factory=set)

    @property
    def location(self) -> str:
        return self.candidate.location if self.candidate is not None else ""


class Ledger:
    def __init__(self) -> None:
        self.records: dict[Key, Record] = {}
        self.places: dict[str, Place] = {}
        """By name; names of Workers are unique on a hub, and the ones that joined are those that count."""
        self.companies: dict[str, Company] = {}
        self.assumed: dict[Record, float] = {}
        """Bindings under way, the oldest first, and until when they count."""
        self.cheapest = 0.0
        self.log: list[tuple[str, bool]] = []
        """Workers that may fit better than before, in order, and whether it is they who say something else."""
        self.era = 0
        """How often the log was begun anew."""
        self.version = 0
        """Grows with every change that could make another message true."""
        self._demands = Demands()

    def note_managed(self, key: Key, obj: Object | None) -> Record | None:
        """The record as it is now. A state older than the one known is passed over: the scheduler knows what it
        wrote before the watch does."""
        known = self.records.get(key)
        if obj is None:
            if known is not None:
                self._drop(known)
            return None
        revision = int(obj["metadata"]["resourceVersion"])
        if known is None:
            created = str(obj["metadata"].get("creationTimestamp", ""))
            known = Record(key, obj, 0, self._demands.of(obj), group_of(obj), (created, key))
            self.records[key] = known
        elif known.revision > revision:
            return known
        bound = fleet.assigned_worker(obj)
        known.revision, known.deleting = revision, fleet.is_deleting(obj)
        known.obj = None if bound else obj
        known.last = str(fleet.status_of(obj).get("lastWorker") or "")
        known.coming = fleet.moving_to(obj)
        if bound:
            known.bound = bound
            self.forget(known)
        elif known.bound:
            known.bound = ""
        if known.deleting:
            self.forget(known)
        self._seat(known, self._demands.of(obj), group_of(obj))
        return known

    def note_bound(self, record: Record, worker: str, revision: int) -> None:
        """The API said that it is so, before the watch did."""
        self.assumed.pop(record, None)
        record.assumed = ""
        if self.records.get(record.key) is not record:
            return  # it went away meanwhile
        if revision > record.revision:
            record.bound, record.last, record.obj, record.revision = worker, worker, None, revision
        self._seat(record, record.asked, record.group)

    def assume(self, record: Record, worker: str, now: float) -> None:
        record.assumed = worker
        self.assumed[record] = now + ASSUMED_SECONDS
        self._seat(record, record.asked, record.group)

    def reserve(self, record: Record, worker: str) -> None:
        """It is about to be moved there; empty: it is not, after all. What its object says next is what counts."""
        record.coming = worker
        self._seat(record, record.asked, record.group)

    def forget(self, record: Record) -> None:
        """It was not bound, or it is and the object says so."""
        self.assumed.pop(record, None)
        record.assumed = ""
        self._seat(record, record.asked, record.group)

    def expire(self, now: float) -> list[Record]:
        """Those whose binding nothing was heard of; they count no longer."""
        found: list[Record] = []
        while self.assumed and next(iter(self.assumed.values())) <= now:
            record = next(iter(self.assumed))
            self.forget(record)
            found.append(record)
        return found

    def _drop(self, record: Record) -> None:
        del self.records[record.key]
        record.bound, record.coming, record.obj = "", "", None
        self.forget(record)

    def _seat(self, record: Record, asked: Demand, group: str) -> None:
        here = record.bound or record.assumed
        where = (here, record.coming) if here and record.coming not in ("", here) else (here,) if here else ()
        if (record.where, record.asked, record.group) == (where, asked, group):
            return
        for name in record.where:
            self._count(record, name, -1)
            self._opened(name, False)
        record.where, record.asked, record.group = where, asked, group
        for name in where:
            self._count(record, name, 1)
            self.version += 1

    def _count(self, record: Record, worker: str, number: int) -> None:
        place = self.places.get(worker)
        if place is None:
            place = self.places[worker] = Place()
        used = place.used
        used.clusters += number
        for name, amount in record.asked.need.items():
            used.amounts[name] += number * amount
        (place.hosted.add if number > 0 else place.hosted.discard)(record.key)
        company = self.companies.get(record.group)
        if company is None:
            company = self.companies[record.group] = Company()
        company.add(worker, place.location, number)
        if not company.total:
            del self.companies[record.group]
        if place.candidate is None and not place.hosted:
            del self.places[worker]

    def _opened(self, worker: str, said: bool) -> None:
        self.version += 1
        self.log.append((worker, said))
        if len(self.log) > LOG:
            self.begin_anew()

    def begin_anew(self) -> None:
        """Whatever was concluded from earlier is to be concluded again."""
        self.log = []
        self.era += 1

    def note_worker(self, key: Key, obj: Object | None) -> bool:
        """Tells whether what scheduling looks at is different now."""
        if key[1] != fleet.NAMESPACE:
            return False
        name, now = key[2], candidate(obj) if obj is not None else None
        place = self.places.get(name) or Place()
        before = place.candidate
        if now == before:
            return False
        company = [self.records[each].group for each in place.hosted]
        for group in company:
            self.companies[group].add(name, place.location, -1)
        place.candidate = now
        for group in company:
            self.companies[group].add(name, place.location, 1)
        if now is not None or place.hosted:
            self.places[name] = place
        else:
            del self.places[name]
        self._opened(name, True)
        if (before.cost if before is not None else 0.0) != (now.cost if now is not None else 0.0):
            self._price()
        return True

    def _price(self) -> None:
        cheapest = min((each.cost for each, _ in self.workers() if each.cost > 0), default=0.0)
        if cheapest != self.cheapest:
            self.cheapest = cheapest
            self.begin_anew()

    def workers(self) -> Iterator[tuple[Candidate, Usage]]:
        for place in self.places.values():
            if place.candidate is not None:
                yield place.candidate, place.used

    def used(self, worker: str) -> Usage:
        place = self.places.get(worker)
        return place.used if place is not None else Usage()
