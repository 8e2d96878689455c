"""Pods behind a Service, their ports, and the pod fields that endpoints depend on. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from shoal.kinds.pod_state import is_ready, is_terminal

Object = dict[str, Any]


class Port(NamedTuple):
    name: str
    protocol: str
    port: int
    app: str | None
    """The Service's appProtocol, if any."""


Ports = tuple[Port, ...]


def selects(service: Object) -> bool:
    """Returns whether the controller manages the Service's endpoints. Those of other Services are written by others."""
    spec = service.get("spec") or {}
    return bool(spec.get("selector")) and spec.get("type") != "ExternalName"


def matches(service: Object, labels: Object | None) -> bool:
    wanted = (service.get("spec") or {}).get("selector") or {}
    return wanted.items() <= (labels or {}).items()


def is_member(pod: Object, *, terminating: bool) -> bool:
    """`include_terminating`: whether deleting pods count."""
    if is_terminal(pod) or not addresses(pod):
        return False
    return terminating or "deletionTimestamp" not in pod["metadata"]


def addresses(pod: Object) -> list[str]:
    status = pod.get("status") or {}
    found = [each["ip"] for each in status.get("podIPs") or () if each.get("ip")]
    return found or ([status["podIP"]] if status.get("podIP") else [])


def family_of(address: str) -> str:
    return "IPv6" if ":" in address else "IPv4"


def facts(pod: Object | None) -> tuple[object, ...] | None:
    """Returns every field of a pod that its endpoints depend on, except its name and ports, which cannot change."""
    if pod is None:
        return None
    metadata, spec = pod["metadata"], pod["spec"]
    where = spec.get("nodeName"), spec.get("hostname"), spec.get("subdomain")
    state = "deletionTimestamp" in metadata, is_ready(pod), is_terminal(pod), addresses(pod)
    return metadata.get("uid"), metadata.get("labels"), where, state


def port_finder(service: Object) -> Callable[[Object], Ports]:
    """Returns a function from pod to ports. Named ports that the pod does not have are omitted."""
    wanted = service["spec"].get("ports") or []
    fixed = [_port(each, each.get("targetPort")) for each in wanted if not isinstance(each.get("targetPort"), str)]
    if len(fixed) == len(wanted):
        same = tuple(fixed)
        return lambda pod: same

    def found(pod: Object) -> Ports:
        numbers = ((each, _number(pod, each)) for each in wanted)
        return tuple(_port(each, number) for each, number in numbers if number is not None)

    return found


def _port(wanted: Object, number: Any) -> Port:
    return Port(
        wanted.get("name") or "", wanted.get("protocol") or "TCP", int(number or 0), wanted.get("appProtocol") or None
    )


def _number(pod: Object, wanted: Object) -> int | None:
    target = wanted.get("targetPort")
    if not isinstance(target, str):
        return int(target or 0)
    for container in _serving(pod):
        for port in container.get("ports") or ():
            if port.get("name") == target and (port.get("protocol") or "TCP") == (wanted.get("protocol") or "TCP"):
                return int(port["containerPort"])
    return None


def _serving(pod: Object) -> Iterable[Object]:
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
