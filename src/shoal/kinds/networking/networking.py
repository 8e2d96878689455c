"""The kinds of networking.k8s.io/v1 except Ingress (see `ingress`): defaults and validation. Pure."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network

from shoal.kinds.validation.field import (
    IMMUTABLE,
    Object,
    ensure_map,
    invalid_causes,
    is_port_name,
    is_unchanged,
    parse_cidr,
    parse_ip,
    set_defaults,
    validate_cidr,
    validate_domain_prefixed_path,
    validate_enum,
    validate_immutable,
    validate_label_selector,
    validate_port_number,
)
from shoal.objects.errors import Cause, forbidden_field, invalid_value, not_supported, required_value, too_long
from shoal.objects.names import is_dns1123_label, is_dns1123_subdomain, is_path_segment_name

MAX_CONTROLLER_LENGTH = 250
_IP_MESSAGE = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_DIRECTIONS = (("ingress", "from"), ("egress", "to"))


def default_network_policy(obj: Object) -> None:
    spec = ensure_map(obj, "spec")
    ensure_map(spec, "podSelector")
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    for direction, _ in _DIRECTIONS:
        for rule in spec.get(direction) or ():
            for port in rule.get("ports") or ():
                set_defaults(port, protocol="TCP")


def validate_network_policy(obj: Object, old: Object | None) -> list[Cause]:
    if is_unchanged(obj, old):
        return []
    spec = obj["spec"]
    causes = validate_label_selector(spec["podSelector"], "spec.podSelector")
    for direction, peers in _DIRECTIONS:
        for i, rule in enumerate(spec.get(direction) or ()):
            path = f"spec.{direction}[{i}]"
            for j, port in enumerate(rule.get("ports") or ()):
                causes += _validate_policy_port(port, f"{path}.ports[{j}]")
            for j, peer in enumerate(rule.get(peers) or ()):
                causes += _validate_peer(peer, f"{path}.{peers}[{j}]")
    kinds = spec["policyTypes"]
    if len(kinds) > 2:
        return [*causes, invalid_value("spec.policyTypes", kinds, "may not specify more than two policyTypes")]
    for i, kind in enumerate(kinds):
        causes += validate_enum(kind, f"spec.policyTypes[{i}]", "Ingress", "Egress")
    return causes


def _validate_policy_port(entry: Object, path: str) -> list[Cause]:
    causes = validate_enum(entry["protocol"], f"{path}.protocol", "TCP", "UDP", "SCTP")
    port, end = entry.get("port"), entry.get("endPort")
    if isinstance(port, int):
        causes += validate_port_number(port, f"{path}.port")
        if end is not None:
            if end < port:
                causes.append(invalid_value(f"{path}.endPort", port, "must be greater than or equal to `port`"))
            causes += validate_port_number(end, f"{path}.endPort")
        return causes
    if end is not None:
        port_state = "not specified" if port is None else "non-numeric"
        causes.append(invalid_value(f"{path}.endPort", end, f"may not be specified when `port` is {port_state}"))
    return causes + (invalid_causes(f"{path}.port", port, is_port_name(port)) if port is not None else [])


def _validate_peer(peer: Object, path: str) -> list[Cause]:
    peer_fields = [field for field in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(field) is not None]
    if not peer_fields:
        return [required_value(path, "must specify a peer")]
    causes: list[Cause] = []
    for field in peer_fields:
        if field != "ipBlock":
            causes += validate_label_selector(peer[field], f"{path}.{field}")
    if "ipBlock" in peer_fields:
        causes += _validate_ip_block(peer["ipBlock"], f"{path}.ipBlock")
        if len(peer_fields) > 1:
            causes.append(forbidden_field(path, "may not specify both ipBlock and another peer"))
    return causes


def _validate_ip_block(block: Object, path: str) -> list[Cause]:
    whole = block.get("cidr") or ""
    if not whole:
        return [required_value(f"{path}.cidr")]
    causes, network = validate_cidr(whole, f"{path}.cidr"), parse_cidr(whole)
    if network is None:
        return causes
    for i, text in enumerate(block.get("except") or ()):
        item_path, part = f"{path}.except[{i}]", parse_cidr(text)
        causes += validate_cidr(text, item_path)
        if part is not None and not _is_strict_subset(part, network):
            causes.append(invalid_value(item_path, text, "must be a strict subset of `cidr`"))
    return causes


def _is_strict_subset(part: IPv4Network | IPv6Network, whole: IPv4Network | IPv6Network) -> bool:
    return part.version == whole.version and part.network_address in whole and part.prefixlen > whole.prefixlen


def default_ingress_class(obj: Object) -> None:
    parameters = ensure_map(obj, "spec").get("parameters")
    if parameters is not None:
        set_defaults(parameters, scope="Cluster")


def validate_ingress_class(obj: Object, old: Object | None) -> list[Cause]:
    spec = obj["spec"]
    causes = validate_immutable(spec, old["spec"], "spec", "controller", absent="") if old is not None else []
    controller = spec.get("controller") or ""
    if len(controller) > MAX_CONTROLLER_LENGTH:
        causes.append(too_long("spec.controller", MAX_CONTROLLER_LENGTH))
    causes += validate_domain_prefixed_path(controller, "spec.controller")
    if spec.get("parameters") is not None:
        causes += _validate_parameters_ref(spec["parameters"], "spec.parameters")
    return causes


def _validate_parameters_ref(reference: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    if reference.get("apiGroup") is not None:
        causes += invalid_causes(f"{path}.apiGroup", reference["apiGroup"], is_dns1123_subdomain(reference["apiGroup"]))
    for field in ("kind", "name"):
        value = reference.get(field) or ""
        causes += (
            invalid_causes(f"{path}.{field}", value, is_path_segment_name(value))
            if value
            else [required_value(f"{path}.{field}")]
        )
    scope, namespace = reference["scope"], reference.get("namespace")
    if scope not in ("Cluster", "Namespace"):
        causes.append(not_supported(f"{path}.scope", scope, ("Cluster", "Namespace")))
    elif scope == "Namespace" and namespace is None:
        causes.append(required_value(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'"))
    elif scope == "Namespace":
        causes += invalid_causes(f"{path}.namespace", namespace, is_dns1123_label(str(namespace)))
    elif namespace is not None:
        causes.append(forbidden_field(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'"))
    return causes


def is_ip_address_name(name: str) -> list[str]:
    """An IPAddress is named by its address in canonical form."""
    parsed = parse_ip(name)
    if parsed is None:
        return [_IP_MESSAGE]
    return [] if str(parsed) == name else [f'must be in canonical form ("{parsed}")']


def validate_ip_address(obj: Object, old: Object | None) -> list[Cause]:
    reference, path = ensure_map(obj, "spec").get("parentRef"), "spec.parentRef"
    causes = _validate_parent_ref(reference, path) if reference is not None else [required_value(path)]
    return causes + (validate_immutable(obj["spec"], old["spec"], "spec", "parentRef") if old is not None else [])


def _validate_parent_ref(reference: Object, path: str) -> list[Cause]:
    group = reference.get("group") or ""
    causes = invalid_causes(f"{path}.group", group, is_dns1123_subdomain(group)) if group else []
    for field in ("resource", "name", "namespace"):
        value = reference.get(field) or ""
        if value:
            causes += invalid_causes(f"{path}.{field}", value, is_path_segment_name(value))
        elif field != "namespace":
            causes.append(required_value(f"{path}.{field}"))
    return causes


def default_service_cidr(obj: Object) -> None:
    ensure_map(obj, "spec")
    ensure_map(obj, "status")


def validate_service_cidr(obj: Object, old: Object | None) -> list[Cause]:
    cidrs = obj["spec"].get("cidrs") or []
    before = (old["spec"].get("cidrs") or []) if old is not None else []
    if old is None or (len(before) == 1 and len(cidrs) == 2):
        return _validate_cidrs_unchanged(cidrs, before) + _validate_cidrs(obj["spec"], cidrs)
    if len(cidrs) != len(before):
        return [invalid_value("spec.cidrs", cidrs, IMMUTABLE)]
    return _validate_cidrs_unchanged(cidrs, before)


def _validate_cidrs_unchanged(cidrs: list[str], before: list[str]) -> list[Cause]:
    pairs = enumerate(zip(cidrs, before, strict=False))
    return [invalid_value(f"spec.cidrs[{i}]", new, IMMUTABLE) for i, (new, old) in pairs if new != old]


def _validate_cidrs(spec: Object, cidrs: list[str]) -> list[Cause]:
    if not cidrs:
        return [required_value("spec.cidrs", "at least one CIDR required")]
    if len(cidrs) > 2:
        return [invalid_value("spec.cidrs", spec, "may only hold up to 2 values")]
    causes: list[Cause] = []
    for i, text in enumerate(cidrs):
        causes += validate_cidr(text, f"spec.cidrs[{i}]")
        parsed, address = parse_cidr(text), parse_ip(text.partition("/")[0])
        if parsed is not None and address != parsed.network_address:
            detail = "must not have bits set beyond the prefix length"
            causes.append(invalid_value(f"spec.cidrs[{i}]", text, detail))
        elif parsed is not None and str(parsed) != text:
            causes.append(invalid_value(f"spec.cidrs[{i}]", text, f'must be in canonical form ("{parsed}")'))
    families = [network.version for network in map(parse_cidr, cidrs) if network is not None]
    if families in ([4, 4], [6, 6]):
        detail = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        causes.append(invalid_value("spec.cidrs", cidrs, detail))
    return causes
