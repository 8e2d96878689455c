"""Printer columns of the core kinds: pods, services, nodes, volumes, quotas."""

from __future__ import annotations

from typing import Any

from shoal.apiserver.registry.columns import AGE, CREATED
from shoal.apiserver.registry.columns_workloads import NONE, UNKNOWN, Cell, field_cell, number_cell
from shoal.apiserver.registry.registry import Column
from shoal.kinds.core.pod.printer import summarize_pod
from shoal.objects.conditions import condition_is, get_condition

Object = dict[str, Any]

MAX_SHOWN = 3
UNSET = "<unset>"
ROLE_PREFIX, ROLE = "node-role.kubernetes.io/", "kubernetes.io/role"
CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_MODES = (
    ("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP"),
)  # fmt: skip


def _text(*path: str, otherwise: str = "") -> Cell:
    find = field_cell(*path)
    return lambda obj, now: find(obj, now) or otherwise


def _labels(*path: str) -> Cell:
    find = field_cell(*path)

    def cell(obj: Object, now: float) -> object:
        labels: Any = find(obj, now) or {}
        return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) or NONE

    return cell


def _container_fields(field: str, *path: str) -> Cell:
    find = field_cell(*path, "spec", "containers")

    def cell(obj: Object, now: float) -> object:
        containers: Any = find(obj, now) or ()
        return ",".join(container.get(field) or "" for container in containers)

    return cell


# --- pods ---


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


# --- services and endpoints ---


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


# --- nodes ---


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


# --- volumes and quotas ---


def _access_modes(modes: Any) -> str:
    return ",".join(short for long, short in _MODES if long in (modes or ()))


def _phase(obj: Object, now: float) -> object:
    going = "deletionTimestamp" in obj["metadata"]
    return "Terminating" if going else (obj.get("status") or {}).get("phase") or ""


def _claim(volume: Object, now: float) -> object:
    claim = volume["spec"].get("claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


def _class(obj: Object, now: float) -> object:
    annotated = (obj["metadata"].get("annotations") or {}).get(CLASS_ANNOTATION)
    return annotated if annotated is not None else obj["spec"].get("storageClassName") or ""


def _only_if_bound(cell: Cell) -> Cell:
    """A claim's size and modes are meaningless before it has a volume."""
    return lambda claim, now: cell(claim, now) if claim["spec"].get("volumeName") else ""


def _usage(quota: Object, *, limits: bool) -> str:
    status = quota.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    names = sorted(name for name in hard if name.startswith("limits.") == limits)
    return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)


COLUMNS: dict[str, tuple[Column, ...]] = {
    "pods": (
        Column("Ready", cell=_ready),
        Column("Status", cell=lambda pod, now: summarize_pod(pod).reason),
        Column("Restarts", cell=lambda pod, now: summarize_pod(pod).restarts_text(now)),
        AGE,
        Column("IP", priority=1, cell=_pod_ip),
        Column("Node", priority=1, cell=_text("spec", "nodeName", otherwise=NONE)),
        Column("Nominated Node", priority=1, cell=_text("status", "nominatedNodeName", otherwise=NONE)),
        Column("Readiness Gates", priority=1, cell=_readiness_gates),
    ),
    "podtemplates": (
        Column("Containers", cell=_container_fields("name", "template")),
        Column("Images", cell=_container_fields("image", "template")),
        Column("Pod Labels", cell=_labels("template", "metadata", "labels")),
    ),
    "replicationcontrollers": (
        Column("Desired", type="integer", cell=number_cell("spec", "replicas")),
        Column("Current", type="integer", cell=number_cell("status", "replicas")),
        Column("Ready", type="integer", cell=number_cell("status", "readyReplicas")),
        AGE,
        Column("Containers", priority=1, cell=_container_fields("name", "spec", "template")),
        Column("Images", priority=1, cell=_container_fields("image", "spec", "template")),
        Column("Selector", priority=1, cell=_labels("spec", "selector")),
    ),
    "services": (
        Column("Type", cell=_text("spec", "type")),
        Column("Cluster-IP", cell=_cluster_ip),
        Column("External-IP", cell=_external_ip),
        Column("Port(s)", cell=_service_ports),
        AGE,
        Column("Selector", priority=1, cell=_labels("spec", "selector")),
    ),
    "endpoints": (Column("Endpoints", cell=_endpoints), AGE),
    "nodes": (
        Column("Status", cell=_node_status),
        Column("Roles", cell=_roles),
        AGE,
        Column("Version", cell=_text("status", "nodeInfo", "kubeletVersion")),
        Column("Internal-IP", priority=1, cell=_node_address("InternalIP")),
        Column("External-IP", priority=1, cell=_node_address("ExternalIP")),
        Column("OS-Image", priority=1, cell=_text("status", "nodeInfo", "osImage", otherwise=UNKNOWN)),
        Column("Kernel-Version", priority=1, cell=_kernel),
        Column(
            "Container-Runtime",
            priority=1,
            cell=_text("status", "nodeInfo", "containerRuntimeVersion", otherwise=UNKNOWN),
        ),
    ),
    "persistentvolumes": (
        Column("Capacity", cell=_text("spec", "capacity", "storage", otherwise="0")),
        Column("Access Modes", cell=lambda obj, now: _access_modes(obj["spec"].get("accessModes"))),
        Column("Reclaim Policy", cell=_text("spec", "persistentVolumeReclaimPolicy")),
        Column("Status", cell=_phase),
        Column("Claim", cell=_claim),
        Column("StorageClass", cell=_class),
        Column("VolumeAttributesClass", cell=field_cell("spec", "volumeAttributesClassName", otherwise=UNSET)),
        Column("Reason", cell=_text("status", "reason")),
        AGE,
        Column("VolumeMode", priority=1, cell=field_cell("spec", "volumeMode", otherwise=UNSET)),
    ),
    "persistentvolumeclaims": (
        Column("Status", cell=_phase),
        Column("Volume", cell=_text("spec", "volumeName")),
        Column("Capacity", cell=_only_if_bound(_text("status", "capacity", "storage", otherwise="0"))),
        Column(
            "Access Modes",
            cell=_only_if_bound(lambda obj, now: _access_modes((obj.get("status") or {}).get("accessModes"))),
        ),
        Column("StorageClass", cell=_class),
        Column("VolumeAttributesClass", cell=field_cell("spec", "volumeAttributesClassName", otherwise=UNSET)),
        AGE,
        Column("VolumeMode", priority=1, cell=field_cell("spec", "volumeMode", otherwise=UNSET)),
    ),
    "resourcequotas": (
        Column("Request", cell=lambda obj, now: _usage(obj, limits=False)),
        Column("Limit", cell=lambda obj, now: _usage(obj, limits=True)),
        AGE,
    ),
    "limitranges": (CREATED,),
}
