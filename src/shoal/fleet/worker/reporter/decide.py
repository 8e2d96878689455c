"""Builds the status of a hosted ManagedCluster from the Cluster API objects in the worker's own root. Pure.

It sets conditions; the phase follows from them (`phase_of`). Failures are added to `status.errors`, which is cleared
when the cluster runs without failures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.fleet.worker.hosting.upgrade import is_up, running_version, versions
from shoal.fleet.worker.settings import WorkerSettings
from shoal.kinds import fleet, nodepools
from shoal.objects.conditions import get_condition, set_condition

Object = dict[str, Any]
Said = tuple[str, str, str]
"""Status, reason and message of a condition."""

CONTROL_PLANE, NODES, UP_TO_DATE = "ControlPlaneUpgrading", "NodesUpgrading", "UpToDate"


@dataclass(frozen=True, slots=True)
class Hosted:
    """Objects of the cluster in the worker's own root."""

    cluster: Object | None = None
    kubeconfig: str = ""
    """As the hub publishes it; empty if it does not exist yet."""
    control_plane: Object | None = None
    """The EmbeddedCluster."""
    pools: Mapping[str, Object] = field(default_factory=dict)
    """Its MachineDeployments by pool name, including those the provisioner buys from."""


def report(managed: Object, hosted: Hosted, worker: WorkerSettings, now: str) -> Object:
    """Returns the new status, built from the one the hub has."""
    infrastructure = fleet.spec_of(managed).get("infrastructure")
    if infrastructure not in worker.provides:
        said = f"infrastructure {infrastructure} is not supported by worker {worker.name}"
        return failed(managed, fleet.NOT_SUPPORTED, f"{said}, which provides {', '.join(worker.provides)}", now)
    running = is_provisioned(hosted.cluster) and bool(hosted.kubeconfig)
    told = _condition(managed, fleet.INFRASTRUCTURE_READY, _infrastructure(hosted.cluster), now)
    told = _condition(told, fleet.NODES_READY, _nodes(managed, hosted), now)
    told = _with_status(told, _counted(managed, hosted))
    broken = _broken(hosted.control_plane)
    if broken is not None and not running:
        return failed(told, *broken, now)
    told = _condition(told, fleet.READY, _ready(hosted, running), now)
    if not running:
        return _phased(told)
    upgraded = _upgraded(managed, hosted)
    told = _condition(told, fleet.UPGRADED, upgraded, now)
    published = fleet.kubeconfig_hash(hosted.kubeconfig)
    version = running_version(hosted.control_plane) or worker.version
    told = _with_status(told, {"version": version, "kubeconfigHash": published})
    if upgraded[1] == fleet.VERSION_REFUSED:
        return _phased(_with_status(told, {"errors": fleet.errors_with(told, *upgraded[1:], now)}))
    status = _phased(told)
    status.pop("errors", None)
    return status


def failed(managed: Object, reason: str, message: str, now: str) -> Object:
    told = _condition(managed, fleet.READY, ("False", reason, message), now)
    return _phased(_with_status(told, {"errors": fleet.errors_with(managed, reason, message, now)}))


def _phased(told: Object) -> Object:
    generation = int(told["metadata"].get("generation") or 0)
    return {**fleet.status_of(told), "phase": fleet.phase_of(told), "observedGeneration": generation}


def _with_status(told: Object, added: Object) -> Object:
    return {**told, "status": {**fleet.status_of(told), **added}}


def is_provisioned(cluster: Object | None) -> bool:
    if cluster is None or fleet.is_deleting(cluster):
        return False
    return fleet.status_of(cluster).get("phase") == "Provisioned"


def _broken(control_plane: Object | None) -> tuple[str, str] | None:
    """Returns a provider failure that waiting does not resolve."""
    ready = get_condition(control_plane or {}, fleet.READY)
    if ready is None or ready["status"] != "False" or ready.get("reason") not in fleet.FAILURES:
        return None
    return str(ready["reason"]), str(ready.get("message") or "")


def _infrastructure(cluster: Object | None) -> Said:
    if cluster is None:
        return "False", "NotThereYet", "the Cluster is not there yet"
    said = get_condition(cluster, fleet.INFRASTRUCTURE_READY)
    if said is not None:
        return str(said["status"]), str(said.get("reason") or "Unknown"), str(said.get("message") or "")
    initialization = fleet.status_of(cluster).get("initialization") or {}
    if initialization.get("infrastructureProvisioned"):
        return "True", "Provisioned", ""
    return "False", "Provisioning", "the infrastructure is being provisioned"


def _ready_nodes(pool: Object | None) -> int:
    return int(fleet.status_of(pool or {}).get("readyReplicas") or 0)


def _counted(managed: Object, hosted: Hosted) -> Object:
    asked = [
        {"name": pool.name, "nodes": pool.nodes, "readyNodes": _ready_nodes(hosted.pools.get(pool.name))}
        for pool in nodepools.asked_for(fleet.spec_of(managed))
    ]
    return {"nodes": sum(map(_ready_nodes, hosted.pools.values())), "nodePools": asked}


def _nodes(managed: Object, hosted: Hosted) -> Said:
    asked = nodepools.asked_for(fleet.spec_of(managed))
    wanted = sum(pool.nodes for pool in asked)
    ready = sum(min(pool.nodes, _ready_nodes(hosted.pools.get(pool.name))) for pool in asked)
    message = f"{ready} of {wanted} nodes are ready"
    return ("True", "NodesReady", message) if ready >= wanted else ("False", "NodesNotReady", message)


def _ready(hosted: Hosted, running: bool) -> Said:
    if running:
        return "True", "Running", "its API is served"
    if is_provisioned(hosted.cluster):
        return "False", "NoKubeconfig", "there is no kubeconfig for it yet"
    return "False", "Provisioning", "its control plane is being provisioned"


def _upgraded(managed: Object, hosted: Hosted) -> Said:
    wanted, runs = str(fleet.spec_of(managed).get("version") or ""), running_version(hosted.control_plane)
    refused = versions(wanted, hosted.control_plane).refused
    if refused:
        return "False", fleet.VERSION_REFUSED, refused
    if wanted and runs != wanted and hosted.control_plane is not None and is_up(hosted.control_plane):
        return "False", CONTROL_PLANE, f"the control plane goes to {wanted}"
    counts = [each for pool in hosted.pools.values() for each in fleet.status_of(pool).get("versions") or ()]
    nodes = sum(int(each["replicas"]) for each in counts)
    old = sum(int(each["replicas"]) for each in counts if each.get("version") != wanted) if wanted else 0
    if old:
        return "False", NODES, f"{nodes - old} of {nodes} nodes run {wanted}"
    return "True", UP_TO_DATE, "control plane and nodes run the version asked for"


def _condition(obj: Object, type_: str, said: Said, now: str) -> Object:
    generation, (status, reason, message) = obj["metadata"].get("generation"), said
    return set_condition(obj, type_, status, reason=reason, message=message, observed_generation=generation, now=now)
