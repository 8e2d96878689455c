"""Kubelet admission: rejects a pod that does not fit its node, in upstream's words.

Applies only to pods whose node was set directly. Pods bound by a Binding were checked by a scheduler, which knew the
node as well as the kubelet does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from shoal.client.reflector import Key
from shoal.controlplane.nodes.podstatus import OWN
from shoal.controlplane.nodes.view import NODES, View
from shoal.fit.affinity import selected
from shoal.fit.ports import clash, host_ports
from shoal.fit.resources import CPU, EPHEMERAL, MEMORY, PODS, allocatable, lacking, pod_requests, subtract, total
from shoal.fit.taints import NO_EXECUTE, untolerated
from shoal.objects.conditions import get_condition

Object = dict[str, Any]


class Rejection(NamedTuple):
    reason: str
    message: str


class Admission:
    def __init__(self, view: View) -> None:
        self._view = view
        self._admitted: dict[Key, str] = {}
        """Uids of admitted pods whose status may not show it yet, so that two pods do not get the same resources."""

    async def rejection(self, key: Key, home: Key, pod: Object, node: Object) -> Rejection | None:
        """Returns why the new pod cannot run on the node; None if it is admitted."""
        found = rejection(pod, node, self._others(key, home))
        if found is not None:
            # The informer's node may be older than the one the pod was placed by.
            node = await self._view.places.at(home[0]).get(NODES, home[2])
            found = rejection(pod, node, self._others(key, home))
        if found is None:
            self._admitted[key] = pod["metadata"]["uid"]
        return found

    def forget(self, key: Key) -> None:
        self._admitted.pop(key, None)

    def _others(self, key: Key, home: Key) -> list[Object]:
        """Returns the other pods that occupy resources of the node."""
        found = ((other, self._view.pod(other)) for other in self._view.pods_on(home) if other != key)
        return [pod for other, pod in found if pod is not None and self._has_place(other, pod)]

    def _has_place(self, key: Key, pod: Object) -> bool:
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return False
        return not is_new(pod) or self._admitted.get(key) == pod["metadata"]["uid"]


def is_new(pod: Object) -> bool:
    """Returns whether the kubelet has yet to admit the pod."""
    status = pod.get("status") or {}
    return (
        not status.get("startTime")
        and status.get("phase") in (None, "Pending")
        and "deletionTimestamp" not in pod["metadata"]
        and get_condition(pod, "PodScheduled") is None
    )


def rejection(pod: Object, node: Object, others: list[Object]) -> Rejection | None:
    """Returns None if the pod fits on the node beside the others."""
    spec, metadata = pod["spec"], node["metadata"]
    system = ((node.get("status") or {}).get("nodeInfo") or {}).get("operatingSystem") or "linux"
    if (spec.get("os") or {}).get("name", system) != system:
        return Rejection("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
    short = _shortage(pod, node, others)
    if short is not None:
        return short
    if not selected(spec, metadata["name"], metadata.get("labels") or {}):
        return _failed("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
    ports = host_ports(pod)
    if ports and any(clash(ports, host_ports(other)) for other in others):
        return _failed("NodePorts", "node(s) didn't have free ports for the requested pod ports")
    taints = (node.get("spec") or {}).get("taints") or ()
    if untolerated(taints, spec.get("tolerations") or (), (NO_EXECUTE,)) is not None:
        return _failed("TaintToleration", "node(s) had taints that the pod didn't tolerate")
    return None


def rejected(pod: Object, why: Rejection, stamp: str) -> Object:
    """Returns the status of a rejected pod."""
    old = pod.get("status") or {}
    status: Object = {
        "phase": "Failed",
        "reason": why.reason,
        "message": f"Pod was rejected: {why.message}",
        "startTime": stamp,
    }
    kept = [each for each in old.get("conditions") or () if each.get("type") not in OWN]
    for field, value in (("conditions", kept), ("qosClass", old.get("qosClass"))):
        if value:
            status[field] = value
    return status


def _shortage(pod: Object, node: Object, others: list[Object]) -> Rejection | None:
    room = allocatable(node)
    # An extended resource that the node does not have is the responsibility of its provider.
    wanted = {name: amount for name, amount in pod_requests(pod).items() if name in room or "/" not in name}
    used = total(map(pod_requests, others))
    short = set(lacking(wanted, subtract(room, used)))
    if not short:
        return None
    name = next((name for name in (PODS, CPU, MEMORY, EPHEMERAL) if name in short), min(short))
    said = f"requested: {wanted[name]}, used: {used.get(name, 0)}, capacity: {room.get(name, 0)}"
    return Rejection(f"OutOf{name}", f"Node didn't have enough resource: {name}, {said}")


def _failed(predicate: str, why: str) -> Rejection:
    return Rejection(predicate, f"Predicate {predicate} failed: {why}")
