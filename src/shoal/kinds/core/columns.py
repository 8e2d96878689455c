"""Printer columns of the kinds of v1.

Those of Events are in `event_columns`, those of volumes and quotas in `volume_columns`.
"""

from __future__ import annotations

from typing import Any

from shoal.kinds.column import (
    AGE,
    MAX_SHOWN,
    NONE,
    UNKNOWN,
    Cell,
    Column,
    container_columns,
    labels_cell,
    number_cell,
    text_cell,
)
from shoal.kinds.core import event_columns, volume_columns
from shoal.kinds.core.pod.printer import summarize_pod
from shoal.objects.conditions import condition_is, get_condition

Object = dict[str, Any]

ROLE_PREFIX, ROLE = "node-role.kubernetes.io/", "kubernetes.io/role"


def _ready(pod: Object, now: float) -> object:
    summary = summarize_pod(pod)
    return f"{summary.ready}/{summary.total}"


def _pod_ip(pod: Object, now: float) -> object:
    addresses = (pod.get("status") or {}).get("podIPs") or ()
    return (addresses[0].get("ip") if addresses else "") or NONE


def _readiness_gates(pod: Object, now: float) -> object:
    gates = (pod.get("spec") or {}).get("readinessGates") or ()
    passed = sum(condition_is(pod, gate.get("conditionType") or "") for gate in gates)
    return f"{passed}/{len(gates)}" if gates else NONE


def _cluster_ip(service: Object, now: float) -> object:
    addresses = service["spec"].get("clusterIPs") or ()
    return addresses[0] if addresses else NONE


def _external_ip(service: Object, now: float) -> object:
    spec = service["spec"]
    kind, own = spec.get("type"), spec.get("externalIPs") or []
    if kind == "ExternalName":
        return spec.get("externalName") or ""
    if kind in ("ClusterIP", "NodePort"):
        return ",".join(own) or NONE
    if kind != "LoadBalancer":
        return UNKNOWN
    balancer = (service.get("status") or {}).get("loadBalancer") or {}
    given = {each.get("ip") or each.get("hostname") for each in balancer.get("ingress") or ()}
    return ",".join([*sorted(each for each in given if each), *own]) or "<pending>"


def _service_ports(service: Object, now: float) -> object:
    def format_port(port: Object) -> str:
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        return f"{port.get('port', 0)}{node}/{port.get('protocol', '')}"

    return ",".join(format_port(port) for port in service["spec"].get("ports") or ()) or NONE


def _endpoints(obj: Object, now: float) -> object:
    found: list[str] = []
    for subset in obj.get("subsets") or ():
        addresses = [each.get("ip") or "" for each in subset.get("addresses") or ()]
        if not subset.get("ports"):
            found += addresses
        for port in subset.get("ports") or ():
            number_ = port.get("port", 0)
            found += [f"[{each}]:{number_}" if ":" in each else f"{each}:{number_}" for each in addresses]
    if not obj.get("subsets"):
        return NONE
    more = f" + {len(found) - MAX_SHOWN} more..." if len(found) > MAX_SHOWN else ""
    return ",".join(found[:MAX_SHOWN]) + more


def _node_status(node: Object, now: float) -> object:
    condition = get_condition(node, "Ready")
    status = "Unknown" if condition is None else "Ready" if condition.get("status") == "True" else "NotReady"
    return status + (",SchedulingDisabled" if (node.get("spec") or {}).get("unschedulable") else "")


def _roles(node: Object, now: float) -> object:
    labels = node["metadata"].get("labels") or {}
    roles = {key.removeprefix(ROLE_PREFIX) for key in labels if key.startswith(ROLE_PREFIX)} | {labels.get(ROLE, "")}
    return ",".join(sorted(roles - {""})) or NONE


def _node_address(kind: str) -> Cell:
    def cell(node: Object, now: float) -> object:
        addresses = (node.get("status") or {}).get("addresses") or ()
        return next((each.get("address") for each in addresses if each.get("type") == kind), NONE)

    return cell


def _kernel(node: Object, now: float) -> object:
    info = (node.get("status") or {}).get("nodeInfo") or {}
    architecture = f" ({info['architecture']})" if info.get("architecture") else ""
    return (info.get("kernelVersion") or UNKNOWN) + architecture


def _data(obj: Object, now: float) -> object:
    return len(obj.get("data") or ()) + len(obj.get("binaryData") or ())


COLUMNS: dict[str, tuple[Column, ...]] = {
    **event_columns.COLUMNS,
    **volume_columns.COLUMNS,
    "pods": (
        Column("Ready", cell=_ready),
        Column("Status", cell=lambda pod, now: summarize_pod(pod).reason),
        Column("Restarts", cell=lambda pod, now: summarize_pod(pod).restarts_text(now)),
        AGE,
        Column("IP", priority=1, cell=_pod_ip),
        Column("Node", priority=1, cell=text_cell("spec", "nodeName", otherwise=NONE)),
        Column("Nominated Node", priority=1, cell=text_cell("status", "nominatedNodeName", otherwise=NONE)),
        Column("Readiness Gates", priority=1, cell=_readiness_gates),
    ),
    "podtemplates": (
        *container_columns("template", priority=0),
        Column("Pod Labels", cell=labels_cell("template", "metadata", "labels")),
    ),
    "replicationcontrollers": (
        Column("Desired", type="integer", cell=number_cell("spec", "replicas")),
        Column("Current", type="integer", cell=number_cell("status", "replicas")),
        Column("Ready", type="integer", cell=number_cell("status", "readyReplicas")),
        AGE,
        *container_columns("spec", "template"),
        Column("Selector", priority=1, cell=labels_cell("spec", "selector")),
    ),
    "services": (
        Column("Type", cell=text_cell("spec", "type")),
        Column("Cluster-IP", cell=_cluster_ip),
        Column("External-IP", cell=_external_ip),
        Column("Port(s)", cell=_service_ports),
        AGE,
        Column("Selector", priority=1, cell=labels_cell("spec", "selector")),
    ),
    "endpoints": (Column("Endpoints", cell=_endpoints), AGE),
    "nodes": (
        Column("Status", cell=_node_status),
        Column("Roles", cell=_roles),
        AGE,
        Column("Version", cell=text_cell("status", "nodeInfo", "kubeletVersion")),
        Column("Internal-IP", priority=1, cell=_node_address("InternalIP")),
        Column("External-IP", priority=1, cell=_node_address("ExternalIP")),
        Column("OS-Image", priority=1, cell=text_cell("status", "nodeInfo", "osImage", otherwise=UNKNOWN)),
        Column("Kernel-Version", priority=1, cell=_kernel),
        Column(
            "Container-Runtime",
            priority=1,
            cell=text_cell("status", "nodeInfo", "containerRuntimeVersion", otherwise=UNKNOWN),
        ),
    ),
    "namespaces": (Column("Status", cell=text_cell("status", "phase")), AGE),
    "configmaps": (Column("Data", type="string", cell=_data), AGE),
    "secrets": (Column("Type", cell=text_cell("type")), Column("Data", type="string", cell=_data), AGE),
    "serviceaccounts": (AGE,),
}
