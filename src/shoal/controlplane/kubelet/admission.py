"""Kubelet admission: rejects a pod that does not fit its node, in upstream's words.

Applies only to pods whose node was set directly. Pods bound by a Binding were checked by a scheduler, which knew the
node as well as the kubelet does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from shoal.client.reflector import Key
from shoal.controlplane.kubelet.informers import NODES, NodeInformers
from shoal.controlplane.kubelet.podstatus import KUBELET_CONDITIONS
from shoal.fit.affinity import matches_node_affinity
from shoal.fit.ports import host_ports, ports_conflict
from shoal.fit.resources import (
    CPU,
    EPHEMERAL,
    MEMORY,
    PODS,
    allocatable,
    insufficient_resources,
    pod_requests,
    subtract,
    total,
)
from shoal.fit.taints import NO_EXECUTE, first_untolerated
from shoal.objects.conditions import get_condition

Object = dict[str, Any]


class Rejection(NamedTuple):
    reason: str
    message: str


class PodAdmission:
    def __init__(self, informers: NodeInformers) -> None:
        self._informers = informers
        self._admitted_uids: dict[Key, str] = {}
        """Uids of admitted pods whose status may not show it yet, so that two pods do not get the same resources."""

    async def reject(self, key: Key, node_key: Key, pod: Object, node: Object) -> Rejection | None:
        """Returns why the new pod cannot run on the node; None if it is admitted."""
        result = admission_failure(pod, node, self._other_pods(key, node_key))
        if result is not None:
            # The informer's node may be older than the one the pod was placed by.
            node = await self._informers.clusters.client_for(node_key[0]).get(NODES, node_key[2])
            result = admission_failure(pod, node, self._other_pods(key, node_key))
        if result is None:
            self._admitted_uids[key] = pod["metadata"]["uid"]
        return result

    def forget(self, key: Key) -> None:
        self._admitted_uids.pop(key, None)

    def _other_pods(self, key: Key, node_key: Key) -> list[Object]:
        """Returns the other pods that occupy resources of the node."""
        candidates = (
            (other, self._informers.pod(other)) for other in self._informers.pods_on(node_key) if other != key
        )
        return [pod for other, pod in candidates if pod is not None and self._is_admitted(other, pod)]

    def _is_admitted(self, key: Key, pod: Object) -> bool:
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return False
        return not needs_admission(pod) or self._admitted_uids.get(key) == pod["metadata"]["uid"]


def needs_admission(pod: Object) -> bool:
    """Returns whether the kubelet has yet to admit the pod."""
    status = pod.get("status") or {}
    return (
        not status.get("startTime")
        and status.get("phase") in (None, "Pending")
        and "deletionTimestamp" not in pod["metadata"]
        and get_condition(pod, "PodScheduled") is None
    )


def admission_failure(pod: Object, node: Object, others: list[Object]) -> Rejection | None:
    """Returns None if the pod fits on the node beside the others."""
    spec, metadata = pod["spec"], node["metadata"]
    node_os = ((node.get("status") or {}).get("nodeInfo") or {}).get("operatingSystem") or "linux"
    if (spec.get("os") or {}).get("name", node_os) != node_os:
        return Rejection("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
    shortage = _insufficient_resource(pod, node, others)
    if shortage is not None:
        return shortage
    if not matches_node_affinity(spec, metadata["name"], metadata.get("labels") or {}):
        return _predicate_failure("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
    ports = host_ports(pod)
    if ports and any(ports_conflict(ports, host_ports(other)) for other in others):
        return _predicate_failure("NodePorts", "node(s) didn't have free ports for the requested pod ports")
    taints = (node.get("spec") or {}).get("taints") or ()
    if first_untolerated(taints, spec.get("tolerations") or (), (NO_EXECUTE,)) is not None:
        return _predicate_failure("TaintToleration", "node(s) had taints that the pod didn't tolerate")
    return None


def rejected_status(pod: Object, rejection: Rejection, now_rfc3339: str) -> Object:
    """Returns the status of a rejected pod."""
    old = pod.get("status") or {}
    status: Object = {
        "phase": "Failed",
        "reason": rejection.reason,
        "message": f"Pod was rejected: {rejection.message}",
        "startTime": now_rfc3339,
    }
    kept = [each for each in old.get("conditions") or () if each.get("type") not in KUBELET_CONDITIONS]
    for field, value in (("conditions", kept), ("qosClass", old.get("qosClass"))):
        if value:
            status[field] = value
    return status


def _insufficient_resource(pod: Object, node: Object, others: list[Object]) -> Rejection | None:
    capacity = allocatable(node)
    # An extended resource that the node does not have is the responsibility of its provider.
    requests = {name: amount for name, amount in pod_requests(pod).items() if name in capacity or "/" not in name}
    used = total(map(pod_requests, others))
    lacking_names = set(insufficient_resources(requests, subtract(capacity, used)))
    if not lacking_names:
        return None
    name = next((name for name in (PODS, CPU, MEMORY, EPHEMERAL) if name in lacking_names), min(lacking_names))
    detail = f"requested: {requests[name]}, used: {used.get(name, 0)}, capacity: {capacity.get(name, 0)}"
    return Rejection(f"OutOf{name}", f"Node didn't have enough resource: {name}, {detail}")


def _predicate_failure(predicate: str, message: str) -> Rejection:
    return Rejection(predicate, f"Predicate {predicate} failed: {message}")
