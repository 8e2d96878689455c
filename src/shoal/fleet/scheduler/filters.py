"""Scheduling filters: one small function per requirement a Worker may fail. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from shoal.fit.resources import quantities
from shoal.fit.taints import untolerated
from shoal.fleet.scheduler.candidate import Candidate, Usage
from shoal.fleet.scheduler.demand import Demand

Object = dict[str, Any]


class Refusal(NamedTuple):
    reason: str
    """Condition reason, used when all Workers fail for the same reason."""
    one: str
    several: str
    """Message parts for one Worker and for several."""


Filter = Callable[[Demand, Candidate], Refusal | None]


def leaving(asked: Demand, worker: Candidate) -> Refusal | None:
    return Refusal("WorkersLeaving", "is being deleted", "are being deleted") if worker.leaving else None


def ready(asked: Demand, worker: Candidate) -> Refusal | None:
    return None if worker.ready else Refusal("WorkersNotReady", "is not ready", "are not ready")


def cordoned(asked: Demand, worker: Candidate) -> Refusal | None:
    return Refusal("WorkersCordoned", "is cordoned", "are cordoned") if worker.cordoned else None


def infrastructure(asked: Demand, worker: Candidate) -> Refusal | None:
    if asked.infrastructure in worker.provides:
        return None
    what = f"infrastructure {asked.infrastructure}"
    return Refusal("InfrastructureNotProvided", f"does not provide {what}", f"do not provide {what}")


def version(asked: Demand, worker: Candidate) -> Refusal | None:
    if (
        not asked.version
        or not worker.versions
        or not {asked.version, minor(asked.version)}.isdisjoint(worker.versions)
    ):
        return None
    what = f"version {asked.version}"
    return Refusal("VersionNotOffered", f"does not offer {what}", f"do not offer {what}")


def minor(release: str) -> str:
    """v1.36 for v1.36.4."""
    return release.rpartition(".")[0]


def location(asked: Demand, worker: Candidate) -> Refusal | None:
    if not asked.location or asked.location == worker.location:
        return None
    what = f"not in location {asked.location}"
    return Refusal("NoWorkerInLocation", f"is {what}", f"are {what}")


def selector(asked: Demand, worker: Candidate) -> Refusal | None:
    if not asked.selector or asked.selector.matches(dict(worker.labels)):
        return None
    return Refusal("SelectorMatchesNothing", "does not match workerSelector", "do not match workerSelector")


def taints(asked: Demand, worker: Candidate) -> Refusal | None:
    found = untolerated(taint_objects(worker), asked.tolerations)
    if found is None:
        return None
    what = f"the taint {taint_text(found)} that is not tolerated"
    return Refusal("TaintNotTolerated", f"has {what}", f"have {what}")


def taint_objects(worker: Candidate) -> list[Object]:
    return [{"key": key, "value": value, "effect": effect} for key, value, effect in worker.taints]


def taint_text(taint: Object) -> str:
    text = f"{taint['key']}={taint['value']}" if taint["value"] else taint["key"]
    return f"{text}:{taint['effect']}"


FILTERS: dict[str, Filter] = {
    "ready": ready,
    "leaving": leaving,
    "cordoned": cordoned,
    "infrastructure": infrastructure,
    "version": version,
    "location": location,
    "selector": selector,
    "taints": taints,
}
"""Filters by name. The first failure is the one that is reported. They ignore usage."""


def refusal(asked: Demand, worker: Candidate) -> Refusal | None:
    for refuses in FILTERS.values():
        found = refuses(asked, worker)
        if found is not None:
            return found
    return None


def room(asked: Demand, worker: Candidate, used: Usage) -> Refusal | None:
    """The last filter, and the only one that changes with every binding: slots, and resources where they are
    limited.
    """
    if not worker.capacity:
        return Refusal("NoFreeSlot", "takes no clusters (capacity 0)", "take no clusters (capacity 0)")
    if used.clusters >= worker.capacity:
        return Refusal("NoFreeSlot", "has no free slot", "have no free slot")
    name = scarce(asked, worker, used)
    if not name:
        return None
    what = f"less than {quantities({name: asked.need[name]})[name]} {name} left"
    return Refusal("NotEnoughResources", f"has {what}", f"have {what}")


def has_room(asked: Demand, worker: Candidate, used: Usage) -> bool:
    """Like `filter_capacity`, without building a message."""
    return used.clusters < worker.capacity and not scarce(asked, worker, used)


def scarce(asked: Demand, worker: Candidate, used: Usage) -> str:
    """Returns the first resource of which not enough is left; empty if there is enough."""
    for name, all_of_it in worker.allocatable:
        wanted = asked.need.get(name, 0)
        if wanted and wanted > all_of_it - used.amounts[name]:
            return name
    return ""
