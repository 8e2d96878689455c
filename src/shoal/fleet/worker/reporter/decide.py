"""Builds the status of a hosted ManagedCluster from the Cluster API objects in the worker's own root. Pure.

It sets conditions; the phase follows from them (`phase_of`). Failures are added to `status.errors`, which is cleared
when the cluster runs without failures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.fleet.worker.hosting.upgrade import is_control_plane_provisioned, running_version, target_versions
from shoal.fleet.worker.settings import WorkerSettings
from shoal.kinds.fleet import infrav1, nodepools
from shoal.kinds.fleet.keys import has_keys_fields, keys_in_force, with_keys_status
from shoal.kinds.limits import WITHIN_LIMITS
from shoal.objects.conditions import get_condition, set_condition

Object = dict[str, Any]
ConditionFields = tuple[str, str, str]
"""Status, reason and message of a condition."""

CONTROL_PLANE_UPGRADING, NODES_UPGRADING, UP_TO_DATE = "ControlPlaneUpgrading", "NodesUpgrading", "UpToDate"


@dataclass(frozen=True, slots=True)
class HostedState:
    """Objects of the cluster in the worker's own root."""

    cluster: Object | None = None
    kubeconfig: str = ""
    """As the hub publishes it; empty if it does not exist yet."""
    control_plane: Object | None = None
    """The EmbeddedCluster, or the KINDCluster."""
    pools: Mapping[str, Object] = field(default_factory=dict)
    """Its MachineDeployments by pool name, including those the provisioner buys from."""
    access: ConditionFields | None = None
    """The condition AccessGranted; None if the worker has nothing to tell about the current spec."""
    copy: Object | None = None
    """Of a kind cluster: its status has what the API server has answered."""


def cluster_status(managed: Object, state: HostedState, worker: WorkerSettings, now: str) -> Object:
    """Returns the new status, built from the one the hub has."""
    infrastructure = infrav1.spec_of(managed).get("infrastructure")
    if infrastructure not in worker.infrastructures:
        message = f"infrastructure {infrastructure} is not supported by worker {worker.name}"
        return failed_status(
            managed, infrav1.NOT_SUPPORTED, f"{message}, which provides {', '.join(worker.infrastructures)}", now
        )
    is_running = is_provisioned(state.cluster) and bool(state.kubeconfig)
    updated = with_condition(managed, infrav1.INFRASTRUCTURE_READY, infrastructure_condition(state.cluster), now)
    updated = with_condition(updated, infrav1.NODES_READY, _nodes_condition(managed, state), now)
    updated = merge_status(updated, _node_counts(managed, state))
    if state.access is not None:
        updated = with_condition(updated, infrav1.ACCESS_GRANTED, state.access, now)
    failure = _provider_failure(state.control_plane)
    if failure is not None and not is_running:
        return failed_status(updated, *failure, now)
    updated = with_condition(updated, infrav1.READY, _ready_condition(state, is_running), now)
    if not is_running:
        return status_with_phase(updated)
    upgraded_fields = _upgraded_condition(managed, state)
    updated = with_condition(updated, infrav1.UPGRADED, upgraded_fields, now)
    kubeconfig_hash = infrav1.kubeconfig_hash(state.kubeconfig)
    version = running_version(state.control_plane) or worker.version
    updated = merge_status(updated, {"version": version, "kubeconfigHash": kubeconfig_hash})
    limits = get_condition(state.control_plane or {}, WITHIN_LIMITS)
    if limits is not None:
        fields = str(limits["status"]), str(limits["reason"]), str(limits.get("message") or "")
        updated = with_condition(updated, WITHIN_LIMITS, fields, now)
    if has_keys_fields(managed):
        in_force = keys_in_force(state.control_plane or {})
        updated = with_keys_status(updated, in_force, now, managed["metadata"].get("generation"))
    if upgraded_fields[1] == infrav1.VERSION_REFUSED:
        return status_with_phase(
            merge_status(updated, {"errors": infrav1.append_error(updated, *upgraded_fields[1:], now)})
        )
    final_status = status_with_phase(updated)
    final_status.pop("errors", None)
    return final_status


def failed_status(managed: Object, reason: str, message: str, now: str) -> Object:
    updated = with_condition(managed, infrav1.READY, ("False", reason, message), now)
    return status_with_phase(merge_status(updated, {"errors": infrav1.append_error(managed, reason, message, now)}))


def status_with_phase(managed: Object) -> Object:
    generation = int(managed["metadata"].get("generation") or 0)
    return {**infrav1.status_of(managed), "phase": infrav1.phase_of(managed), "observedGeneration": generation}


def merge_status(managed: Object, fields: Object) -> Object:
    return {**managed, "status": {**infrav1.status_of(managed), **fields}}


def is_provisioned(cluster: Object | None) -> bool:
    if cluster is None or infrav1.is_deleting(cluster):
        return False
    return infrav1.status_of(cluster).get("phase") == "Provisioned"


def access_condition(copy: Object) -> ConditionFields | None:
    """Returns the condition AccessGranted of a copy if it is about its current spec."""
    condition = get_condition(copy, infrav1.ACCESS_GRANTED)
    if condition is None or condition.get("observedGeneration") != copy["metadata"].get("generation"):
        return None
    return str(condition["status"]), str(condition["reason"]), str(condition.get("message") or "")


def _provider_failure(control_plane: Object | None) -> tuple[str, str] | None:
    """Returns a provider failure that waiting does not resolve."""
    ready = get_condition(control_plane or {}, infrav1.READY)
    if ready is None or ready["status"] != "False" or ready.get("reason") not in infrav1.PERMANENT_FAILURE_REASONS:
        return None
    return str(ready["reason"]), str(ready.get("message") or "")


def infrastructure_condition(cluster: Object | None) -> ConditionFields:
    if cluster is None:
        return "False", "NotThereYet", "the Cluster does not exist yet"
    condition = get_condition(cluster, infrav1.INFRASTRUCTURE_READY)
    if condition is not None:
        return str(condition["status"]), str(condition.get("reason") or "Unknown"), str(condition.get("message") or "")
    initialization = infrav1.status_of(cluster).get("initialization") or {}
    if initialization.get("infrastructureProvisioned"):
        return "True", "Provisioned", ""
    return "False", "Provisioning", "the infrastructure is being provisioned"


def _ready_node_count(pool: Object | None) -> int:
    return int(infrav1.status_of(pool or {}).get("readyReplicas") or 0)


def _node_counts(managed: Object, state: HostedState) -> Object:
    pools = [
        {"name": pool.name, "nodes": pool.nodes, "readyNodes": _ready_node_count(state.pools.get(pool.name))}
        for pool in nodepools.declared_pools(infrav1.spec_of(managed))
    ]
    return {"nodes": sum(map(_ready_node_count, state.pools.values())), "nodePools": pools}


def _nodes_condition(managed: Object, state: HostedState) -> ConditionFields:
    pools = nodepools.declared_pools(infrav1.spec_of(managed))
    desired = sum(pool.nodes for pool in pools)
    ready = sum(min(pool.nodes, _ready_node_count(state.pools.get(pool.name))) for pool in pools)
    message = f"{ready} of {desired} nodes are ready"
    return ("True", "NodesReady", message) if ready >= desired else ("False", "NodesNotReady", message)


def _ready_condition(state: HostedState, running: bool) -> ConditionFields:
    if running:
        return "True", "Running", "the API server is ready"
    if is_provisioned(state.cluster):
        return "False", "NoKubeconfig", "the kubeconfig does not exist yet"
    return "False", "Provisioning", "the control plane is being provisioned"


def _upgraded_condition(managed: Object, state: HostedState) -> ConditionFields:
    desired, running = str(infrav1.spec_of(managed).get("version") or ""), running_version(state.control_plane)
    version_error = target_versions(desired, state.control_plane).version_error
    if version_error:
        return "False", infrav1.VERSION_REFUSED, version_error
    if (
        desired
        and running != desired
        and state.control_plane is not None
        and is_control_plane_provisioned(state.control_plane)
    ):
        return "False", CONTROL_PLANE_UPGRADING, f"the control plane is being upgraded to {desired}"
    counts = [each for pool in state.pools.values() for each in infrav1.status_of(pool).get("versions") or ()]
    nodes = sum(int(each["replicas"]) for each in counts)
    outdated = sum(int(each["replicas"]) for each in counts if each.get("version") != desired) if desired else 0
    if outdated:
        return "False", NODES_UPGRADING, f"{nodes - outdated} of {nodes} nodes run {desired}"
    return "True", UP_TO_DATE, "control plane and nodes run the requested version"


def with_condition(obj: Object, type_: str, condition: ConditionFields, now: str) -> Object:
    generation, (status, reason, message) = obj["metadata"].get("generation"), condition
    return set_condition(obj, type_, status, reason=reason, message=message, observed_generation=generation, now=now)
