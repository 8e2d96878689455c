"""The scheduler's cache of assignments and free capacity, derived from observed objects, never counted separately.

Each ManagedCluster counts once, on the Worker in its status or on the one the scheduler has assumed for a while. A
ManagedCluster that is being migrated counts on both Workers. An event that is seen twice, late or not at all leaks no
slot.
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
"""How long a binding is assumed while neither the API nor the watch confirms it."""
LOG = 10_000


@dataclass(slots=True, eq=False)
class Record:
    """What the scheduler knows about a ManagedCluster."""

    key: Key
    obj: Object | None
    """The object, kept only while it is not bound: bound ones are many, and the scheduler writes nothing to them."""
    revision: int
    asked: Demand
    group: str
    order: tuple[str, Key]
    """Scheduling order: creation time, then key."""
    last: str = ""
    """The Worker it was on before."""
    bound: str = ""
    assumed: str = ""
    coming: str = ""
    """The Worker it is being migrated to, or is about to be."""
    where: tuple[str, ...] = ()
    """The Workers it is counted on."""
    deleting: bool = False
    told: Waiting | None = None
    """The last reason that was reported in its status."""

    @property
    def homeless(self) -> bool:
        return not (self.bound or self.assumed or self.deleting)


@dataclass(slots=True)
class Place:
    """A Worker by name. It may not exist while ManagedClusters still name it."""

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
        """By name. Worker names are unique on a hub; only Workers that joined count."""
        self.companies: dict[str, Company] = {}
        self.assumed: dict[Record, float] = {}
        """Bindings in flight, oldest first, with the time until which they count."""
        self.cheapest = 0.0
        self.log: list[tuple[str, bool]] = []
        """Workers that may fit better than before, in order, and whether the Worker itself has changed."""
        self.era = 0
        """Incremented every time the log is reset."""
        self.version = 0
        """Incremented by every change that could change a fit error."""
        self._demands = Demands()

    def note_managed(self, key: Key, obj: Object | None) -> Record | None:
        """Updates the cache from an object and returns its entry. A state older than the cached one is ignored: the
        scheduler knows its own write before the watch delivers it.
        """
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
        """Records a binding that the API has confirmed before the watch did."""
        self.assumed.pop(record, None)
        record.assumed = ""
        if self.records.get(record.key) is not record:
            return  # Deleted meanwhile.
        if revision > record.revision:
            record.bound, record.last, record.obj, record.revision = worker, worker, None, revision
        self._seat(record, record.asked, record.group)

    def assume(self, record: Record, worker: str, now: float) -> None:
        record.assumed = worker
        self.assumed[record] = now + ASSUMED_SECONDS
        self._seat(record, record.asked, record.group)

    def reserve(self, record: Record, worker: str) -> None:
        """Reserves capacity for a migration; an empty worker releases it. The next object state overrides the
        reservation.
        """
        record.coming = worker
        self._seat(record, record.asked, record.group)

    def forget(self, record: Record) -> None:
        """Drops the assumption: the binding failed, or the object already shows it."""
        self.assumed.pop(record, None)
        record.assumed = ""
        self._seat(record, record.asked, record.group)

    def expire(self, now: float) -> list[Record]:
        """Drops assumptions that were not confirmed in time and returns their entries."""
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
        """Resets the log. Everything derived from it must be recomputed."""
        self.log = []
        self.era += 1

    def note_worker(self, key: Key, obj: Object | None) -> bool:
        """Updates the cache from a Worker. Returns True if anything that scheduling uses has changed."""
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
