"""The kinds of networking.k8s.io/v1 except Ingress (see `ingress`): defaults and validation. Pure."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network

from shoal.kinds.checks import (
    IMMUTABLE,
    Object,
    cidr,
    domain_prefixed_path,
    fill,
    immutable,
    is_port_name,
    label_selector,
    one_of,
    parse_cidr,
    parse_ip,
    port_number,
    said,
    section,
    unchanged,
)
from shoal.objects.errors import Cause, forbidden_field, invalid_value, not_supported, required, too_long
from shoal.objects.names import is_dns1123_label, is_dns1123_subdomain, is_path_segment_name

CONTROLLER_LENGTH = 250
_IP_SAID = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_DIRECTIONS = (("ingress", "from"), ("egress", "to"))


def default_network_policy(obj: Object) -> None:
    spec = section(obj, "spec")
    section(spec, "podSelector")
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    for direction, _ in _DIRECTIONS:
        for rule in spec.get(direction) or ():
            for port in rule.get("ports") or ():
                fill(port, protocol="TCP")


def validate_network_policy(obj: Object, old: Object | None) -> list[Cause]:
    if unchanged(obj, old):
        return []
    spec = obj["spec"]
    causes = label_selector(spec["podSelector"], "spec.podSelector")
    for direction, peers in _DIRECTIONS:
        for i, rule in enumerate(spec.get(direction) or ()):
            path = f"spec.{direction}[{i}]"
            for j, port in enumerate(rule.get("ports") or ()):
                causes += _policy_port(port, f"{path}.ports[{j}]")
            for j, peer in enumerate(rule.get(peers) or ()):
                causes += _peer(peer, f"{path}.{peers}[{j}]")
    kinds = spec["policyTypes"]
    if len(kinds) > 2:
        return [*causes, invalid_value("spec.policyTypes", kinds, "may not specify more than two policyTypes")]
    for i, kind in enumerate(kinds):
        causes += one_of(kind, f"spec.policyTypes[{i}]", "Ingress", "Egress")
    return causes


def _policy_port(entry: Object, path: str) -> list[Cause]:
    causes = one_of(entry["protocol"], f"{path}.protocol", "TCP", "UDP", "SCTP")
    port, end = entry.get("port"), entry.get("endPort")
    if isinstance(port, int):
        causes += port_number(port, f"{path}.port")
        if end is not None:
            if end < port:
                causes.append(invalid_value(f"{path}.endPort", port, "must be greater than or equal to `port`"))
            causes += port_number(end, f"{path}.endPort")
        return causes
    if end is not None:
        why = "not specified" if port is None else "non-numeric"
        causes.append(invalid_value(f"{path}.endPort", end, f"may not be specified when `port` is {why}"))
    return causes + (said(f"{path}.port", port, is_port_name(port)) if port is not None else [])


def _peer(peer: Object, path: str) -> list[Cause]:
    given = [field for field in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(field) is not None]
    if not given:
        return [required(path, "must specify a peer")]
    causes: list[Cause] = []
    for field in given:
        if field != "ipBlock":
            causes += label_selector(peer[field], f"{path}.{field}")
    if "ipBlock" in given:
        causes += _ip_block(peer["ipBlock"], f"{path}.ipBlock")
        if len(given) > 1:
            causes.append(forbidden_field(path, "may not specify both ipBlock and another peer"))
    return causes


def _ip_block(block: Object, path: str) -> list[Cause]:
    whole = block.get("cidr") or ""
    if not whole:
        return [required(f"{path}.cidr")]
    causes, network = cidr(whole, f"{path}.cidr"), parse_cidr(whole)
    if network is None:
        return causes
    for i, text in enumerate(block.get("except") or ()):
        here, part = f"{path}.except[{i}]", parse_cidr(text)
        causes += cidr(text, here)
        if part is not None and not _strictly_within(part, network):
            causes.append(invalid_value(here, text, "must be a strict subset of `cidr`"))
    return causes


def _strictly_within(part: IPv4Network | IPv6Network, whole: IPv4Network | IPv6Network) -> bool:
    return part.version == whole.version and part.network_address in whole and part.prefixlen > whole.prefixlen


def default_ingress_class(obj: Object) -> None:
    parameters = section(obj, "spec").get("parameters")
    if parameters is not None:
        fill(parameters, scope="Cluster")


def validate_ingress_class(obj: Object, old: Object | None) -> list[Cause]:
    spec = obj["spec"]
    causes = immutable(spec, old["spec"], "spec", "controller", absent="") if old is not None else []
    controller = spec.get("controller") or ""
    if len(controller) > CONTROLLER_LENGTH:
        causes.append(too_long("spec.controller", CONTROLLER_LENGTH))
    causes += domain_prefixed_path(controller, "spec.controller")
    if spec.get("parameters") is not None:
        causes += _parameters(spec["parameters"], "spec.parameters")
    return causes


def _parameters(reference: Object, path: str) -> list[Cause]:
    causes: list[Cause] = []
    if reference.get("apiGroup") is not None:
        causes += said(f"{path}.apiGroup", reference["apiGroup"], is_dns1123_subdomain(reference["apiGroup"]))
    for field in ("kind", "name"):
        value = reference.get(field) or ""
        causes += (
            said(f"{path}.{field}", value, is_path_segment_name(value)) if value else [required(f"{path}.{field}")]
        )
    scope, namespace = reference["scope"], reference.get("namespace")
    if scope not in ("Cluster", "Namespace"):
        causes.append(not_supported(f"{path}.scope", scope, ("Cluster", "Namespace")))
    elif scope == "Namespace" and namespace is None:
        causes.append(required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'"))
    elif scope == "Namespace":
        causes += said(f"{path}.namespace", namespace, is_dns1123_label(str(namespace)))
    elif namespace is not None:
        causes.append(forbidden_field(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'"))
    return causes


def is_ip_name(name: str) -> list[str]:
    """An IPAddress is named by its address in canonical form."""
    parsed = parse_ip(name)
    if parsed is None:
        return [_IP_SAID]
    return [] if str(parsed) == name else [f'must be in canonical form ("{parsed}")']


def validate_ip_address(obj: Object, old: Object | None) -> list[Cause]:
    reference, path = section(obj, "spec").get("parentRef"), "spec.parentRef"
    causes = _parent(reference, path) if reference is not None else [required(path)]
    return causes + (immutable(obj["spec"], old["spec"], "spec", "parentRef") if old is not None else [])


def _parent(reference: Object, path: str) -> list[Cause]:
    group = reference.get("group") or ""
    causes = said(f"{path}.group", group, is_dns1123_subdomain(group)) if group else []
    for field in ("resource", "name", "namespace"):
        value = reference.get(field) or ""
        if value:
            causes += said(f"{path}.{field}", value, is_path_segment_name(value))
        elif field != "namespace":
            causes.append(required(f"{path}.{field}"))
    return causes


def default_service_cidr(obj: Object) -> None:
    section(obj, "spec")
    section(obj, "status")


def validate_service_cidr(obj: Object, old: Object | None) -> list[Cause]:
    cidrs = obj["spec"].get("cidrs") or []
    before = (old["spec"].get("cidrs") or []) if old is not None else []
    if old is None or (len(before) == 1 and len(cidrs) == 2):
        return _changed_cidrs(cidrs, before) + _cidrs(obj["spec"], cidrs)
    if len(cidrs) != len(before):
        return [invalid_value("spec.cidrs", cidrs, IMMUTABLE)]
    return _changed_cidrs(cidrs, before)


def _changed_cidrs(cidrs: list[str], before: list[str]) -> list[Cause]:
    pairs = enumerate(zip(cidrs, before, strict=False))
    return [invalid_value(f"spec.cidrs[{i}]", new, IMMUTABLE) for i, (new, old) in pairs if new != old]


def _cidrs(spec: Object, cidrs: list[str]) -> list[Cause]:
    if not cidrs:
        return [required("spec.cidrs", "at least one CIDR required")]
    if len(cidrs) > 2:
        return [invalid_value("spec.cidrs", spec, "may only hold up to 2 values")]
    causes: list[Cause] = []
    for i, text in enumerate(cidrs):
        causes += cidr(text, f"spec.cidrs[{i}]")
        parsed, address = parse_cidr(text), parse_ip(text.partition("/")[0])
        if parsed is not None and address != parsed.network_address:
            said_ = "must not have bits set beyond the prefix length"
            causes.append(invalid_value(f"spec.cidrs[{i}]", text, said_))
        elif parsed is not None and str(parsed) != text:
            causes.append(invalid_value(f"spec.cidrs[{i}]", text, f'must be in canonical form ("{parsed}")'))
    families = [network.version for network in map(parse_cidr, cidrs) if network is not None]
    if families in ([4, 4], [6, 6]):
        said_ = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        causes.append(invalid_value("spec.cidrs", cidrs, said_))
    return causes
