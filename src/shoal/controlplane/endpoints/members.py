"""Pods behind a Service, their ports, and the pod fields that endpoints depend on. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from shoal.kinds.core.pod.status import is_ready, is_terminal

Object = dict[str, Any]


class ServicePort(NamedTuple):
    name: str
    protocol: str
    port: int
    app_protocol: str | None
    """The Service's appProtocol, if any."""


ServicePorts = tuple[ServicePort, ...]


def has_selector(service: Object) -> bool:
    """Returns whether the controller manages the Service's endpoints. Those of other Services are written by others."""
    spec = service.get("spec") or {}
    return bool(spec.get("selector")) and spec.get("type") != "ExternalName"


def selects_labels(service: Object, labels: Object | None) -> bool:
    selector = (service.get("spec") or {}).get("selector") or {}
    return selector.items() <= (labels or {}).items()


def belongs_to_endpoints(pod: Object, *, include_terminating: bool) -> bool:
    """`include_terminating`: whether deleting pods count."""
    if is_terminal(pod) or not pod_addresses(pod):
        return False
    return include_terminating or "deletionTimestamp" not in pod["metadata"]


def pod_addresses(pod: Object) -> list[str]:
    status = pod.get("status") or {}
    ips = [each["ip"] for each in status.get("podIPs") or () if each.get("ip")]
    return ips or ([status["podIP"]] if status.get("podIP") else [])


def family_of(address: str) -> str:
    return "IPv6" if ":" in address else "IPv4"


def endpoint_facts(pod: Object | None) -> tuple[object, ...] | None:
    """Returns every field of a pod that its endpoints depend on, except its name and ports, which cannot change."""
    if pod is None:
        return None
    metadata, spec = pod["metadata"], pod["spec"]
    placement = spec.get("nodeName"), spec.get("hostname"), spec.get("subdomain")
    state = "deletionTimestamp" in metadata, is_ready(pod), is_terminal(pod), pod_addresses(pod)
    return metadata.get("uid"), metadata.get("labels"), placement, state


def pod_ports_func(service: Object) -> Callable[[Object], ServicePorts]:
    """Returns a function from pod to ports. Named ports that the pod does not have are omitted."""
    service_ports = service["spec"].get("ports") or []
    fixed = [
        _service_port(each, each.get("targetPort"))
        for each in service_ports
        if not isinstance(each.get("targetPort"), str)
    ]
    if len(fixed) == len(service_ports):
        same = tuple(fixed)
        return lambda pod: same

    def pod_ports(pod: Object) -> ServicePorts:
        numbers = ((each, _target_port_number(pod, each)) for each in service_ports)
        return tuple(_service_port(each, number) for each, number in numbers if number is not None)

    return pod_ports


def _service_port(service_port: Object, number: Any) -> ServicePort:
    return ServicePort(
        service_port.get("name") or "",
        service_port.get("protocol") or "TCP",
        int(number or 0),
        service_port.get("appProtocol") or None,
    )


def _target_port_number(pod: Object, service_port: Object) -> int | None:
    target = service_port.get("targetPort")
    if not isinstance(target, str):
        return int(target or 0)
    for container in _serving_containers(pod):
        for port in container.get("ports") or ():
            if port.get("name") == target and (port.get("protocol") or "TCP") == (
                service_port.get("protocol") or "TCP"
            ):
                return int(port["containerPort"])
    return None


def _serving_containers(pod: Object) -> Iterable[Object]:
    """Yields its containers, then its sidecars."""
    yield from pod["spec"].get("containers") or ()
    for container in pod["spec"].get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            yield container


def hostname_of(pod: Object, service: Object) -> str:
    """Returns the pod's hostname in the Service's domain."""
    spec = pod["spec"]
    return str(spec.get("hostname") or "") if spec.get("subdomain") == service["metadata"]["name"] else ""


def target_of(pod: Object) -> Object:
    metadata = pod["metadata"]
    return {"kind": "Pod", "namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"]}
