"""Whether a ManagedCluster is registered as a workload Cluster. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shoal.kinds import workload
from shoal.sync.conditions import Condition

Object = dict[str, Any]

REGISTERED = "Registered"


@dataclass(frozen=True, slots=True)
class Decision:
    create: Object | None = None
    delete: str = ""
    """The uid of the workload Cluster that has to go."""
    condition: Condition | None = None
    """What the ManagedCluster is told; None: nothing."""


def decide(namespace: str, name: str, managed: Object | None, cluster: Object | None) -> Decision:
    """`managed` is None only where it is known to be gone; `cluster` is the workload Cluster of its name."""
    own = cluster is not None and is_for(cluster, namespace, name)
    wanted = managed is not None and "deletionTimestamp" not in managed["metadata"] and _registers(managed)
    if not wanted:
        uid = cluster["metadata"]["uid"] if cluster is not None and own and _stays(cluster) else ""
        told = _condition(False, "NotRegistered", "spec.register is false") if _declined(managed) else None
        return Decision(delete=uid, condition=told)
    title = workload.name_for(namespace, name)
    if own:
        return Decision(condition=_condition(True, "Registered", f"as clusters.workload.kcp.dev {title!r}"))
    if cluster is not None:
        said = f"clusters.workload.kcp.dev {title!r} exists and is not of this ManagedCluster"
        return Decision(condition=_condition(False, "NameTaken", said))
    if len(title) > workload.LONGEST_NAME:
        said = f"the name {title!r} is longer than {workload.LONGEST_NAME} characters"
        return Decision(condition=_condition(False, "NameTooLong", said))
    if not _runs(managed):
        return Decision()
    return Decision(create=cluster_for(namespace, name))


def cluster_for(namespace: str, name: str) -> Object:
    return {
        "apiVersion": f"{workload.GROUP}/{workload.VERSION}",
        "kind": workload.KIND,
        "metadata": {
            "name": workload.name_for(namespace, name),
            "labels": {workload.MANAGED: workload.managed_value(namespace, name)},
        },
        "spec": {"kubeconfigSecretRef": {"namespace": namespace, "name": f"{name}-kubeconfig", "key": "value"}},
    }


def is_for(cluster: Object, namespace: str, name: str) -> bool:
    labels = cluster["metadata"].get("labels") or {}
    return bool(labels.get(workload.MANAGED) == workload.managed_value(namespace, name))


def _registers(managed: Object) -> bool:
    return (managed.get("spec") or {}).get("register", True) is not False


def _declined(managed: Object | None) -> bool:
    return managed is not None and "deletionTimestamp" not in managed["metadata"] and not _registers(managed)


def _runs(managed: Object | None) -> bool:
    return managed is not None and (managed.get("status") or {}).get("phase") == "Running"


def _stays(cluster: Object) -> bool:
    return "deletionTimestamp" not in cluster["metadata"]


def _condition(registered: bool, reason: str, message: str) -> Condition:
    return Condition(REGISTERED, "True" if registered else "False", reason, message)
