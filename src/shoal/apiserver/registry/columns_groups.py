"""Printer columns of the other groups: networking, storage, certificates, admission and the rest."""

from __future__ import annotations

from typing import Any

from shoal.apiserver.registry.columns import AGE, CREATED
from shoal.apiserver.registry.columns_workloads import NONE, Cell, field_cell, number_cell, selector_cell, selector_text
from shoal.apiserver.registry.registry import Column
from shoal.objects.conditions import get_condition
from shoal.objects.duration import human_duration

Object = dict[str, Any]

MAX_SHOWN = 3
ADDRESS_WIDTH = 16
UNSET = "<unset>"


def _default_name(annotation: str) -> Column:
    """The default class is marked next to its name."""

    def cell(obj: Object, now: float) -> object:
        marked = (obj["metadata"].get("annotations") or {}).get(annotation) == "true"
        return obj["metadata"]["name"] + (" (default)" if marked else "")

    return Column("Name", format="name", cell=cell)


def _first_few(texts: list[str], total: int) -> str:
    """The first few of many."""
    if not texts:
        return UNSET
    return ",".join(texts[:MAX_SHOWN]) + (f" + {total - MAX_SHOWN} more..." if total > MAX_SHOWN else "")


def _hosts(obj: Object, now: float) -> object:
    rules = obj["spec"].get("rules") or []
    hosts = [rule["host"] for rule in rules if rule.get("host")]
    more = f" + {len(rules) - MAX_SHOWN} more..." if len(hosts) >= MAX_SHOWN and len(rules) > MAX_SHOWN else ""
    return ",".join(hosts[:MAX_SHOWN]) + more if hosts else "*"


def _address(obj: Object, now: float) -> object:
    given = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    text = ",".join(sorted({point.get("ip") or point.get("hostname") or "" for point in given} - {""}))
    return text if len(text) <= ADDRESS_WIDTH else text[: ADDRESS_WIDTH - 3] + "..."


def _api_server(obj: Object, now: float) -> object:
    service = obj["spec"].get("service")
    return "Local" if service is None else f"{service.get('namespace', '')}/{service.get('name', '')}"


def _available(obj: Object, now: float) -> object:
    condition = get_condition(obj, "Available") or {"status": "Unknown"}
    reason = condition.get("reason")
    return f"{condition['status']} ({reason})" if reason and condition["status"] != "True" else condition["status"]


def _parameters(obj: Object, now: float) -> object:
    reference = obj["spec"].get("parameters")
    if reference is None:
        return NONE
    group = f".{reference['apiGroup']}" if reference.get("apiGroup") is not None else ""
    return f"{reference.get('kind', '')}{group}/{reference.get('name', '')}"


def _parent(obj: Object, now: float) -> object:
    reference = obj["spec"].get("parentRef")
    if reference is None:
        return NONE
    resource = ".".join(part for part in (reference.get("resource"), reference.get("group")) if part).lower()
    return "/".join(part for part in (resource, reference.get("namespace"), reference.get("name")) if part)


def _slice_ports(obj: Object, now: float) -> object:
    ports = obj.get("ports") or []
    return _first_few(
        [str(p["port"]) if p.get("port") is not None else p.get("name") or "*" for p in ports], len(ports)
    )


def _slice_endpoints(obj: Object, now: float) -> object:
    found = [address for endpoint in obj.get("endpoints") or () for address in endpoint.get("addresses") or ()]
    return _first_few(found, len(found))


def _request_condition(obj: Object, now: float) -> object:
    status = obj.get("status") or {}
    kinds = {condition.get("type") for condition in status.get("conditions") or ()}
    states = ["Denied" if "Denied" in kinds else "Approved" if "Approved" in kinds else "Pending"]
    states += ["Failed"] if "Failed" in kinds else []
    states += ["Issued"] if status.get("certificate") else []
    return ",".join(states)


def _requested_duration(obj: Object, now: float) -> object:
    seconds = (obj.get("spec") or {}).get("expirationSeconds")
    return NONE if seconds is None else human_duration(seconds)


def _count(*path: str) -> Cell:
    find = field_cell(*path, otherwise=())

    def cell(obj: Object, now: float) -> object:
        found: Any = find(obj, now)
        return len(found)

    return cell


def _joined_list(*path: str, otherwise: str) -> Cell:
    find = field_cell(*path, otherwise=())

    def cell(obj: Object, now: float) -> object:
        found: Any = find(obj, now)
        return ",".join(found) or otherwise

    return cell


def _param_kind(obj: Object, now: float) -> object:
    kind = obj["spec"].get("paramKind")
    return UNSET if kind is None else f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}"


def _param_ref(obj: Object, now: float) -> object:
    reference = obj["spec"].get("paramRef") or {}
    if reference.get("name"):
        return f"{reference.get('namespace') or '*'}/{reference['name']}"
    return selector_text(reference["selector"]) if reference.get("selector") is not None else UNSET


def _audiences(obj: Object, now: float) -> object:
    requests = obj["spec"].get("tokenRequests")
    return UNSET if requests is None else ",".join(request.get("audience", "") for request in requests)


def _is_dangling(obj: Object, now: float) -> object:
    condition = get_condition(obj, "Dangling")
    return "?" if condition is None else condition.get("status", "")


def _claim_state(obj: Object, now: float) -> object:
    status, gone = obj.get("status") or {}, "deletionTimestamp" in obj["metadata"]
    states = ["deleted"] if gone else []
    if status.get("allocation") is not None:
        states += ["allocated", "reserved"] if status.get("reservedFor") else ["allocated"]
    elif not gone:
        states.append("pending")
    return ",".join(states)


_QUEUING = ("spec", "limited", "limitResponse", "queuing")
_BINDING = (Column("PolicyName", cell=field_cell("spec", "policyName")), Column("ParamRef", cell=_param_ref), AGE)
_WEBHOOKS = (Column("Webhooks", type="integer", cell=_count("webhooks")), AGE)


def _policy(field: str) -> tuple[Column, ...]:
    counted = Column(field.capitalize(), type="integer", cell=_count("spec", field))
    return (counted, Column("ParamKind", cell=_param_kind), AGE)


COLUMNS: dict[str, tuple[Column, ...]] = {
    "ingresses.networking.k8s.io": (
        Column("Class", cell=field_cell("spec", "ingressClassName", otherwise=NONE)),
        Column("Hosts", cell=_hosts),
        Column("Address", cell=_address),
        Column("Ports", cell=lambda obj, now: "80, 443" if obj["spec"].get("tls") else "80"),
        AGE,
    ),
    "ingressclasses.networking.k8s.io": (
        _default_name("ingressclass.kubernetes.io/is-default-class"),
        Column("Controller", cell=field_cell("spec", "controller")),
        Column("Parameters", cell=_parameters),
        AGE,
    ),
    "networkpolicies.networking.k8s.io": (Column("Pod-Selector", cell=selector_cell("spec", "podSelector")), AGE),
    "ipaddresses.networking.k8s.io": (Column("ParentRef", cell=_parent), AGE),
    "servicecidrs.networking.k8s.io": (Column("CIDRs", cell=_joined_list("spec", "cidrs", otherwise="")), AGE),
    "storageclasses.storage.k8s.io": (
        _default_name("storageclass.kubernetes.io/is-default-class"),
        Column("Provisioner", cell=field_cell("provisioner")),
        Column("ReclaimPolicy", cell=field_cell("reclaimPolicy")),
        Column("VolumeBindingMode", cell=field_cell("volumeBindingMode")),
        Column("AllowVolumeExpansion", cell=field_cell("allowVolumeExpansion", otherwise=False)),
        AGE,
    ),
    "volumeattributesclasses.storage.k8s.io": (Column("DriverName", cell=field_cell("driverName")), AGE),
    "volumeattachments.storage.k8s.io": (
        Column("Attacher", format="name", cell=field_cell("spec", "attacher")),
        Column("PV", cell=field_cell("spec", "source", "persistentVolumeName", otherwise="")),
        Column("Node", cell=field_cell("spec", "nodeName")),
        Column("Attached", type="boolean", cell=field_cell("status", "attached", otherwise=False)),
        AGE,
    ),
    "csinodes.storage.k8s.io": (Column("Drivers", type="integer", cell=_count("spec", "drivers")), AGE),
    "csidrivers.storage.k8s.io": (
        Column("AttachRequired", type="boolean", cell=field_cell("spec", "attachRequired", otherwise=True)),
        Column("PodInfoOnMount", type="boolean", cell=field_cell("spec", "podInfoOnMount", otherwise=False)),
        Column("StorageCapacity", type="boolean", cell=field_cell("spec", "storageCapacity", otherwise=False)),
        Column("TokenRequests", cell=_audiences),
        Column("RequiresRepublish", type="boolean", cell=field_cell("spec", "requiresRepublish", otherwise=False)),
        Column("Modes", cell=_joined_list("spec", "volumeLifecycleModes", otherwise=NONE)),
        AGE,
    ),
    "csistoragecapacities.storage.k8s.io": (CREATED,),
    "priorityclasses.scheduling.k8s.io": (
        Column("Value", type="integer", cell=number_cell("value")),
        Column("Global-Default", type="boolean", cell=field_cell("globalDefault", otherwise=False)),
        AGE,
        Column("PreemptionPolicy", cell=field_cell("preemptionPolicy", otherwise="")),
    ),
    "runtimeclasses.node.k8s.io": (Column("Handler", cell=field_cell("handler")), AGE),
    "endpointslices.discovery.k8s.io": (
        Column("AddressType", cell=field_cell("addressType")),
        Column("Ports", cell=_slice_ports),
        Column("Endpoints", cell=_slice_endpoints),
        AGE,
    ),
    "certificatesigningrequests.certificates.k8s.io": (
        AGE,
        Column("SignerName", cell=field_cell("spec", "signerName", otherwise=NONE)),
        Column("Requestor", cell=field_cell("spec", "username", otherwise="")),
        Column("RequestedDuration", cell=_requested_duration),
        Column("Condition", cell=_request_condition),
    ),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
    "validatingadmissionpolicies.admissionregistration.k8s.io": _policy("validations"),
    "mutatingadmissionpolicies.admissionregistration.k8s.io": _policy("mutations"),
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": _BINDING,
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io": _BINDING,
    "flowschemas.flowcontrol.apiserver.k8s.io": (
        Column("PriorityLevel", cell=field_cell("spec", "priorityLevelConfiguration", "name")),
        Column("MatchingPrecedence", cell=number_cell("spec", "matchingPrecedence")),
        Column("DistinguisherMethod", cell=field_cell("spec", "distinguisherMethod", "type", otherwise=NONE)),
        AGE,
        Column("MissingPL", cell=_is_dangling),
    ),
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": (
        Column("Type", cell=field_cell("spec", "type")),
        Column(
            "NominalConcurrencyShares", cell=field_cell("spec", "limited", "nominalConcurrencyShares", otherwise=NONE)
        ),
        Column("Queues", cell=field_cell(*_QUEUING, "queues", otherwise=NONE)),
        Column("HandSize", cell=field_cell(*_QUEUING, "handSize", otherwise=NONE)),
        Column("QueueLengthLimit", cell=field_cell(*_QUEUING, "queueLengthLimit", otherwise=NONE)),
        AGE,
    ),
    "apiservices.apiregistration.k8s.io": (
        Column("Service", cell=_api_server),
        Column("Available", cell=_available),
        AGE,
    ),
    "deviceclasses.resource.k8s.io": (AGE,),
    "resourceclaimtemplates.resource.k8s.io": (AGE,),
    "resourceclaims.resource.k8s.io": (Column("State", cell=_claim_state), AGE),
    "resourceslices.resource.k8s.io": (
        Column("Node", cell=field_cell("spec", "nodeName", otherwise="")),
        Column("Driver", cell=field_cell("spec", "driver")),
        Column("Pool", cell=field_cell("spec", "pool", "name")),
        AGE,
    ),
}
