"""Decides whether a ManagedCluster or Cluster API Cluster is registered as a workload Cluster. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from shoal.kinds import capi, workload
from shoal.sync.conditions import Condition

Object = dict[str, Any]

REGISTERED = "Registered"


class Origin(NamedTuple):
    """The object a workload Cluster is registered for."""

    managed: bool
    """A ManagedCluster, else a Cluster API Cluster."""
    namespace: str
    name: str

    @property
    def title(self) -> str:
        """The name of the workload Cluster."""
        return workload.name_for(self.namespace, self.name)

    @property
    def label(self) -> tuple[str, str]:
        key = workload.MANAGED if self.managed else workload.CLUSTER_API
        return key, workload.managed_value(self.namespace, self.name)

    @property
    def kind(self) -> str:
        return "ManagedCluster" if self.managed else "Cluster API Cluster"


@dataclass(frozen=True, slots=True)
class Decision:
    create: Object | None = None
    delete: str = ""
    """Uid of the workload Cluster to delete."""
    labels: dict[str, str] = field(default_factory=dict)
    """Labels that the workload Cluster lacks."""
    condition: Condition | None = None
    """Condition of the source; None: none is written."""


def decide(origin: Origin, found: Object | None, cluster: Object | None) -> Decision:
    """`source` is None only if it is known to be deleted; `cluster` is the workload Cluster of its name."""
    own = cluster is not None and is_for(cluster, origin)
    if found is None or "deletionTimestamp" in found["metadata"] or not _registers(origin, found):
        uid = cluster["metadata"]["uid"] if cluster is not None and own and _stays(cluster) else ""
        declined = found is not None and "deletionTimestamp" not in found["metadata"]
        told = _condition(False, "NotRegistered", _declined(origin)) if declined else None
        return Decision(delete=uid, condition=told)
    if cluster is not None and own:
        has = cluster["metadata"].get("labels") or {}
        missing = {key: value for key, value in _labels(origin, found).items() if has.get(key) != value}
        told = _condition(True, "Registered", f"as clusters.workload.kcp.dev {origin.title!r}")
        return Decision(labels=missing, condition=told)
    if cluster is not None:
        said = f"clusters.workload.kcp.dev {origin.title!r} exists and is not of this {origin.kind}"
        return Decision(condition=_condition(False, "NameTaken", said))
    if len(origin.title) > workload.LONGEST_NAME:
        said = f"the name {origin.title!r} is longer than {workload.LONGEST_NAME} characters"
        return Decision(condition=_condition(False, "NameTooLong", said))
    if not _runs(origin, found):
        return Decision()
    return Decision(create=cluster_for(origin, found))


def cluster_for(origin: Origin, found: Object) -> Object:
    secret = capi.kubeconfig_name(origin.name)
    return {
        "apiVersion": f"{workload.GROUP}/{workload.VERSION}",
        "kind": workload.KIND,
        "metadata": {"name": origin.title, "labels": _labels(origin, found)},
        "spec": {"kubeconfigSecretRef": {"namespace": origin.namespace, "name": secret, "key": capi.KUBECONFIG_KEY}},
    }


def is_for(cluster: Object, origin: Origin) -> bool:
    key, value = origin.label
    return bool((cluster["metadata"].get("labels") or {}).get(key) == value)


def _labels(origin: Origin, found: Object) -> dict[str, str]:
    """The source's own labels, for selection by a Placement, and its location."""
    labels = dict(found["metadata"].get("labels") or {})
    labels.pop(workload.ASSIGNED, None)
    location = (found.get("spec") or {}).get("location") if origin.managed else ""
    if location:
        labels[workload.LOCATION] = location
    key, value = origin.label
    return {**labels, key: value}


def _registers(origin: Origin, found: Object) -> bool:
    if origin.managed:
        return (found.get("spec") or {}).get("register", True) is not False
    return bool((found["metadata"].get("annotations") or {}).get(workload.REGISTER, "").lower() != "false")


def _declined(origin: Origin) -> str:
    return "spec.register is false" if origin.managed else f"the annotation {workload.REGISTER} is false"


def _runs(origin: Origin, found: Object) -> bool:
    if origin.managed:
        return bool((found.get("status") or {}).get("phase") == "Running")
    return all(capi.initialization(found, part) for part in ("controlPlaneInitialized", "infrastructureProvisioned"))


def _stays(cluster: Object) -> bool:
    return "deletionTimestamp" not in cluster["metadata"]


def _condition(registered: bool, reason: str, message: str) -> Condition:
    return Condition(REGISTERED, "True" if registered else "False", reason, message)
