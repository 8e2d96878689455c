"""Decides whether a ManagedCluster or Cluster API Cluster is registered as a workload Cluster. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from shoal.kinds.clusterapi import capi
from shoal.kinds.workload import workloadcluster
from shoal.sync.conditions import SyncCondition

Object = dict[str, Any]

REGISTERED = "Registered"


class RegistrationSource(NamedTuple):
    """The object a workload Cluster is registered for."""

    managed: bool
    """A ManagedCluster, else a Cluster API Cluster."""
    namespace: str
    name: str

    @property
    def title(self) -> str:
        """The name of the workload Cluster."""
        return workloadcluster.workload_cluster_name(self.namespace, self.name)

    @property
    def label(self) -> tuple[str, str]:
        key = workloadcluster.MANAGED_CLUSTER_LABEL if self.managed else workloadcluster.CAPI_CLUSTER_LABEL
        return key, workloadcluster.managed_cluster_label_value(self.namespace, self.name)

    @property
    def kind(self) -> str:
        return "ManagedCluster" if self.managed else "Cluster API Cluster"


@dataclass(frozen=True, slots=True)
class RegistrationDecision:
    create: Object | None = None
    delete: str = ""
    """Uid of the workload Cluster to delete."""
    labels: dict[str, str] = field(default_factory=dict)
    """Labels that the workload Cluster lacks."""
    condition: SyncCondition | None = None
    """Condition of the source; None: none is written."""


def decide(origin: RegistrationSource, source: Object | None, cluster: Object | None) -> RegistrationDecision:
    """`source` is None only if it is known to be deleted; `cluster` is the workload Cluster of its name."""
    is_own = cluster is not None and is_registered_for(cluster, origin)
    if source is None or "deletionTimestamp" in source["metadata"] or not _wants_registration(origin, source):
        uid = cluster["metadata"]["uid"] if cluster is not None and is_own and _is_not_deleting(cluster) else ""
        is_declined = source is not None and "deletionTimestamp" not in source["metadata"]
        condition = _condition(False, "NotRegistered", _declined_message(origin)) if is_declined else None
        return RegistrationDecision(delete=uid, condition=condition)
    if cluster is not None and is_own:
        current = cluster["metadata"].get("labels") or {}
        missing = {key: value for key, value in _labels(origin, source).items() if current.get(key) != value}
        condition = _condition(True, "Registered", f"registered as clusters.workload.kcp.dev {origin.title!r}")
        return RegistrationDecision(labels=missing, condition=condition)
    if cluster is not None:
        message = f"clusters.workload.kcp.dev {origin.title!r} already exists and does not belong to this {origin.kind}"
        return RegistrationDecision(condition=_condition(False, "NameTaken", message))
    if len(origin.title) > workloadcluster.MAX_NAME_LENGTH:
        message = f"the name {origin.title!r} is longer than {workloadcluster.MAX_NAME_LENGTH} characters"
        return RegistrationDecision(condition=_condition(False, "NameTooLong", message))
    if not _is_running(origin, source):
        return RegistrationDecision()
    return RegistrationDecision(create=cluster_for(origin, source))


def cluster_for(origin: RegistrationSource, source: Object) -> Object:
    secret = capi.kubeconfig_secret_name(origin.name)
    return {
        "apiVersion": f"{workloadcluster.GROUP}/{workloadcluster.VERSION}",
        "kind": workloadcluster.KIND,
        "metadata": {"name": origin.title, "labels": _labels(origin, source)},
        "spec": {"kubeconfigSecretRef": {"namespace": origin.namespace, "name": secret, "key": capi.KUBECONFIG_KEY}},
    }


def is_registered_for(cluster: Object, origin: RegistrationSource) -> bool:
    key, value = origin.label
    return bool((cluster["metadata"].get("labels") or {}).get(key) == value)


def _labels(origin: RegistrationSource, source: Object) -> dict[str, str]:
    """The source's own labels, for selection by a Placement, and its location."""
    labels = dict(source["metadata"].get("labels") or {})
    labels.pop(workloadcluster.CLUSTER_LABEL, None)
    location = (source.get("spec") or {}).get("location") if origin.managed else ""
    if location:
        labels[workloadcluster.LOCATION_LABEL] = location
    key, value = origin.label
    return {**labels, key: value}


def _wants_registration(origin: RegistrationSource, source: Object) -> bool:
    if origin.managed:
        return (source.get("spec") or {}).get("register", True) is not False
    return bool(
        (source["metadata"].get("annotations") or {}).get(workloadcluster.REGISTER_ANNOTATION, "").lower() != "false"
    )


def _declined_message(origin: RegistrationSource) -> str:
    return (
        "spec.register is false" if origin.managed else f"the annotation {workloadcluster.REGISTER_ANNOTATION} is false"
    )


def _is_running(origin: RegistrationSource, source: Object) -> bool:
    if origin.managed:
        return bool((source.get("status") or {}).get("phase") == "Running")
    return all(
        capi.initialization_flag(source, part) for part in ("controlPlaneInitialized", "infrastructureProvisioned")
    )


def _is_not_deleting(cluster: Object) -> bool:
    return "deletionTimestamp" not in cluster["metadata"]


def _condition(registered: bool, reason: str, message: str) -> SyncCondition:
    return SyncCondition(REGISTERED, "True" if registered else "False", reason, message)
