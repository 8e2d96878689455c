"""Scheduling filters: one small function per requirement a Worker may fail. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from shoal.fit.resources import to_quantities
from shoal.fit.taints import first_untolerated
from shoal.fleet.scheduler.candidate import Candidate, WorkerUsage
from shoal.fleet.scheduler.requirements import CPU, MACHINE_CPU, MACHINE_MEMORY, MEMORY, ClusterRequirements
from shoal.kinds.fleet.kindhosting import KIND

Object = dict[str, Any]


class FilterFailure(NamedTuple):
    reason: str
    """Condition reason, used when all Workers fail for the same reason."""
    singular: str
    plural: str
    """Message parts for one Worker and for several."""


Filter = Callable[[ClusterRequirements, Candidate], FilterFailure | None]


def filter_deleting(requirements: ClusterRequirements, worker: Candidate) -> FilterFailure | None:
    return FilterFailure("WorkersLeaving", "is being deleted", "are being deleted") if worker.is_deleting else None


def filter_ready(requirements: ClusterRequirements, worker: Candidate) -> FilterFailure | None:
    return None if worker.is_ready else FilterFailure("WorkersNotReady", "is not ready", "are not ready")


def filter_cordoned(requirements: ClusterRequirements, worker: Candidate) -> FilterFailure | None:
    return FilterFailure("WorkersCordoned", "is cordoned", "are cordoned") if worker.is_cordoned else None


def filter_infrastructure(requirements: ClusterRequirements, worker: Candidate) -> FilterFailure | None:
    if requirements.infrastructure in worker.infrastructures:
        return None
    what = f"infrastructure {requirements.infrastructure}"
    if requirements.infrastructure == KIND:
        what += " (start a worker with --kind where kind and a container engine are installed: docs/kind.md)"
    return FilterFailure("InfrastructureNotProvided", f"does not provide {what}", f"do not provide {what}")


_KIND_ERRORS = {
    "KindNotFound": "no kind command",
    "EngineNotFound": "no container engine",
    "EngineUnavailable": "a container engine that does not answer",
}
"""By reason of the condition KindAvailable."""


def filter_kind(requirements: ClusterRequirements, worker: Candidate) -> FilterFailure | None:
    if requirements.infrastructure != KIND or not worker.kind_error:
        return None
    what = _KIND_ERRORS.get(worker.kind_error, f"no kind that works ({worker.kind_error})")
    return FilterFailure("KindNotAvailable", f"has {what}", f"have {what}")


def filter_version(requirements: ClusterRequirements, worker: Candidate) -> FilterFailure | None:
    offered = offered_versions(requirements, worker)
    if (
        not requirements.version
        or not offered
        or not {requirements.version, minor_version(requirements.version)}.isdisjoint(offered)
    ):
        return None
    what = f"version {requirements.version}"
    return FilterFailure("VersionNotOffered", f"does not offer {what}", f"do not offer {what}")


def offered_versions(requirements: ClusterRequirements, worker: Candidate) -> frozenset[str]:
    """Empty: any."""
    return worker.kind_versions if requirements.infrastructure == KIND else worker.versions


def minor_version(release: str) -> str:
    """v1.36 for v1.36.4."""
    return release.rpartition(".")[0]


def filter_location(requirements: ClusterRequirements, worker: Candidate) -> FilterFailure | None:
    if not requirements.location or requirements.location == worker.location:
        return None
    what = f"not in location {requirements.location}"
    return FilterFailure("NoWorkerInLocation", f"is {what}", f"are {what}")


def filter_selector(requirements: ClusterRequirements, worker: Candidate) -> FilterFailure | None:
    if not requirements.selector or requirements.selector.matches(dict(worker.labels)):
        return None
    return FilterFailure("SelectorMatchesNothing", "does not match workerSelector", "do not match workerSelector")


def filter_taints(requirements: ClusterRequirements, worker: Candidate) -> FilterFailure | None:
    taint = first_untolerated(taint_objects(worker), requirements.tolerations)
    if taint is None:
        return None
    what = f"untolerated taint {taint_text(taint)}"
    return FilterFailure("TaintNotTolerated", f"has {what}", f"have {what}")


def taint_objects(worker: Candidate) -> list[Object]:
    return [{"key": key, "value": value, "effect": effect} for key, value, effect in worker.taints]


def taint_text(taint: Object) -> str:
    text = f"{taint['key']}={taint['value']}" if taint["value"] else taint["key"]
    return f"{text}:{taint['effect']}"


FILTERS: dict[str, Filter] = {
    "ready": filter_ready,
    "leaving": filter_deleting,
    "cordoned": filter_cordoned,
    "infrastructure": filter_infrastructure,
    "kind": filter_kind,
    "version": filter_version,
    "location": filter_location,
    "selector": filter_selector,
    "taints": filter_taints,
}
"""Filters by name. The first failure is the one that is reported. They ignore usage."""


def run_filters(requirements: ClusterRequirements, worker: Candidate) -> FilterFailure | None:
    for filter_func in FILTERS.values():
        failure = filter_func(requirements, worker)
        if failure is not None:
            return failure
    return None


_MACHINE_RESOURCES = {MACHINE_CPU: CPU, MACHINE_MEMORY: MEMORY}


def filter_capacity(requirements: ClusterRequirements, worker: Candidate, usage: WorkerUsage) -> FilterFailure | None:
    """The last filter, and the only one that changes with every binding: slots, and resources where they are
    limited.
    """
    if not worker.capacity:
        return FilterFailure("NoFreeSlot", "takes no clusters (capacity 0)", "take no clusters (capacity 0)")
    if usage.clusters >= worker.capacity:
        return FilterFailure("NoFreeSlot", "has no free slot", "have no free slot")
    name = insufficient_resource(requirements, worker, usage)
    if not name:
        return None
    resource = _MACHINE_RESOURCES.get(name, name)
    what = f"less than {to_quantities({resource: requirements.requests[name]})[resource]} {resource} left"
    if resource != name:
        what += " on its machine for kind nodes"
    return FilterFailure("NotEnoughResources", f"has {what}", f"have {what}")


def has_capacity(requirements: ClusterRequirements, worker: Candidate, usage: WorkerUsage) -> bool:
    """Like `filter_capacity`, without building a message."""
    return usage.clusters < worker.capacity and not insufficient_resource(requirements, worker, usage)


def insufficient_resource(requirements: ClusterRequirements, worker: Candidate, usage: WorkerUsage) -> str:
    """Returns the first resource of which not enough is left; empty if there is enough."""
    for name, allocatable in (*worker.allocatable, *worker.machine):
        requested = requirements.requests.get(name, 0)
        if requested and requested > allocatable - usage.amounts[name]:
            return name
    return ""
