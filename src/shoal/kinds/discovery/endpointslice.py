"""EndpointSlice of discovery.k8s.io/v1: defaults, validation, strategy and printer columns. Pure."""

from __future__ import annotations

from shoal.kinds.column import AGE, MAX_SHOWN, UNSET, Column, field_cell
from shoal.kinds.strategy import Strategy
from shoal.kinds.validation.field import (
    Object,
    ensure_map,
    invalid_causes,
    parse_ip,
    set_defaults,
    validate_enum,
    validate_immutable,
)
from shoal.objects.errors import Cause, duplicate, invalid_value, required_value, too_many
from shoal.objects.names import is_dns1123_label, is_dns1123_subdomain, is_qualified_name, is_valid_label_value

MAX_ENDPOINTS, MAX_ADDRESSES, MAX_PORTS, MAX_HINTS = 1000, 100, 20000, 8
SERVICE_NAME_LABEL = "kubernetes.io/service-name"
MANAGED_BY_LABEL = "endpointslice.kubernetes.io/managed-by"
SKIP_MIRROR_LABEL = "endpointslice.kubernetes.io/skip-mirror"


def default_endpoint_slice(obj: Object) -> None:
    set_defaults(obj, addressType="")
    if obj.get("endpoints") is None:
        obj["endpoints"] = []
    for endpoint in obj["endpoints"]:
        ensure_map(endpoint, "conditions")
    obj.setdefault("ports", None)
    for port in obj.get("ports") or ():
        set_defaults(port, name="", protocol="TCP")


def bump_generation_on_label_change(new: Object, old: Object) -> None:
    """Increments the generation when labels change: they say which Service owns the slice."""
    if (new["metadata"].get("labels") or {}) != (old["metadata"].get("labels") or {}):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def validate_endpoint_slice(obj: Object, old: Object | None) -> list[Cause]:
    kind = obj.get("addressType") or ""
    causes = validate_enum(kind, "addressType", "FQDN", "IPv4", "IPv6") if kind else [required_value("addressType")]
    causes += _validate_ports(obj.get("ports") or [])
    endpoints = obj["endpoints"]
    if old is None or endpoints != old.get("endpoints"):
        causes += _validate_endpoints(endpoints, kind)
    if old is not None:
        causes += validate_immutable(obj, old, "", "addressType")
    return causes


def _validate_ports(ports: list[Object]) -> list[Cause]:
    if len(ports) > MAX_PORTS:
        return [too_many("ports", len(ports), MAX_PORTS)]
    causes, seen = [], set()
    for i, port in enumerate(ports):
        path, name = f"ports[{i}]", port["name"]
        if name:
            causes += invalid_causes(f"{path}.name", name, is_dns1123_label(name))
        if name in seen:
            causes.append(duplicate(f"{path}.name", name))
        seen.add(name)
        causes += validate_enum(port["protocol"], f"{path}.protocol", "SCTP", "TCP", "UDP")
        if port.get("appProtocol") is not None:
            causes += invalid_causes(f"{path}.appProtocol", port["appProtocol"], is_qualified_name(port["appProtocol"]))
    return causes


def _validate_endpoints(endpoints: list[Object], kind: str) -> list[Cause]:
    if len(endpoints) > MAX_ENDPOINTS:
        return [too_many("endpoints", len(endpoints), MAX_ENDPOINTS)]
    causes: list[Cause] = []
    for i, endpoint in enumerate(endpoints):
        path = f"endpoints[{i}]"
        addresses = endpoint.get("addresses") or []
        if not addresses:
            causes.append(required_value(f"{path}.addresses", "must contain at least 1 address"))
        elif len(addresses) > MAX_ADDRESSES:
            causes.append(too_many(f"{path}.addresses", len(addresses), MAX_ADDRESSES))
        for j, address in enumerate(addresses):
            causes += _validate_address(address, kind, f"{path}.addresses", j)
        if endpoint.get("nodeName") is not None:
            causes += invalid_causes(
                f"{path}.nodeName", endpoint["nodeName"], is_dns1123_subdomain(endpoint["nodeName"])
            )
        if endpoint.get("hostname") is not None:
            causes += invalid_causes(f"{path}.hostname", endpoint["hostname"], is_dns1123_label(endpoint["hostname"]))
        causes += _validate_hints(endpoint.get("hints") or {}, f"{path}.hints")
    return causes


def _validate_address(address: str, kind: str, path: str, index: int) -> list[Cause]:
    item_path = f"{path}[{index}]"
    if kind == "FQDN":
        return _validate_fully_qualified(address.removesuffix("."), item_path)
    if kind not in ("IPv4", "IPv6"):
        return []
    parsed = parse_ip(address)
    if parsed is None:
        return [invalid_value(item_path, address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")]
    if f"IPv{parsed.version}" != kind:
        return [invalid_value(path, address, f"must be an {kind} address")]
    if parsed.is_unspecified:
        return [invalid_value(item_path, address, "may not be unspecified (0.0.0.0 or ::)")]
    if parsed.is_loopback:
        return [invalid_value(item_path, address, "may not be in the loopback range (127.0.0.0/8, ::1/128)")]
    if parsed.is_link_local:
        return [invalid_value(item_path, address, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")]
    return []


def _validate_fully_qualified(name: str, path: str) -> list[Cause]:
    if not name:
        return [required_value(path)]
    if messages := is_dns1123_subdomain(name):
        return [invalid_value(path, name, ",".join(messages))]
    if "." not in name:
        return [invalid_value(path, name, "should be a domain with at least two segments separated by dots")]
    return []


def _validate_hints(hints: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for field, rule in (("forZones", is_valid_label_value), ("forNodes", is_dns1123_subdomain)):
        field_hints = hints.get(field) or []
        if len(field_hints) > MAX_HINTS:
            return [*causes, too_many(f"{path}.{field}", len(field_hints), MAX_HINTS)]
        seen = set()
        for i, hint in enumerate(field_hints):
            name, field_path = hint.get("name", ""), f"{path}.{field}[{i}].name"
            if name in seen:
                causes.append(duplicate(field_path, name))
            seen.add(name)
            causes += invalid_causes(field_path, name, rule(name))
    return causes


def _slice_ports(obj: Object, now: float) -> object:
    ports = obj.get("ports") or []
    return _first_few(
        [str(p["port"]) if p.get("port") is not None else p.get("name") or "*" for p in ports], len(ports)
    )


def _slice_endpoints(obj: Object, now: float) -> object:
    found = [address for endpoint in obj.get("endpoints") or () for address in endpoint.get("addresses") or ()]
    return _first_few(found, len(found))


def _first_few(texts: list[str], total: int) -> str:
    """The first few of many."""
    if not texts:
        return UNSET
    return ",".join(texts[:MAX_SHOWN]) + (f" + {total - MAX_SHOWN} more..." if total > MAX_SHOWN else "")


STRATEGIES: dict[str, Strategy] = {
    "endpointslices.discovery.k8s.io": Strategy(
        tracks_generation=True,
        default=default_endpoint_slice,
        prepare_for_update=bump_generation_on_label_change,
        validate=validate_endpoint_slice,
    ),
}

COLUMNS: dict[str, tuple[Column, ...]] = {
    "endpointslices.discovery.k8s.io": (
        Column("AddressType", cell=field_cell("addressType")),
        Column("Ports", cell=_slice_ports),
        Column("Endpoints", cell=_slice_endpoints),
        AGE,
    ),
}
