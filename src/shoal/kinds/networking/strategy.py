"""Strategies and printer columns of the kinds of networking.k8s.io/v1."""

from __future__ import annotations

from typing import Any

from shoal.kinds.column import (
    AGE,
    MAX_SHOWN,
    NONE,
    Column,
    default_class_name_column,
    field_cell,
    joined_list_cell,
    selector_cell,
)
from shoal.kinds.networking import ingress, networking
from shoal.kinds.strategy import Strategy

Object = dict[str, Any]

ADDRESS_WIDTH = 16

STRATEGIES: dict[str, Strategy] = {
    "ingresses.networking.k8s.io": Strategy(
        status_writes_metadata=True,
        tracks_generation=True,
        default=ingress.default_ingress,
        validate=ingress.validate_ingress,
        warnings=ingress.ingress_warnings,
    ),
    "ingressclasses.networking.k8s.io": Strategy(
        tracks_generation=True, default=networking.default_ingress_class, validate=networking.validate_ingress_class
    ),
    "networkpolicies.networking.k8s.io": Strategy(
        tracks_generation=True, default=networking.default_network_policy, validate=networking.validate_network_policy
    ),
    "ipaddresses.networking.k8s.io": Strategy(
        name_rule=networking.is_ip_address_name, generate_suffix=False, validate=networking.validate_ip_address
    ),
    "servicecidrs.networking.k8s.io": Strategy(
        default=networking.default_service_cidr, validate=networking.validate_service_cidr
    ),
}


def _hosts(obj: Object, now: float) -> object:
    rules = obj["spec"].get("rules") or []
    hosts = [rule["host"] for rule in rules if rule.get("host")]
    more = f" + {len(rules) - MAX_SHOWN} more..." if len(hosts) >= MAX_SHOWN and len(rules) > MAX_SHOWN else ""
    return ",".join(hosts[:MAX_SHOWN]) + more if hosts else "*"


def _address(obj: Object, now: float) -> object:
    given = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    text = ",".join(sorted({point.get("ip") or point.get("hostname") or "" for point in given} - {""}))
    return text if len(text) <= ADDRESS_WIDTH else text[: ADDRESS_WIDTH - 3] + "..."


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


COLUMNS: dict[str, tuple[Column, ...]] = {
    "ingresses.networking.k8s.io": (
        Column("Class", cell=field_cell("spec", "ingressClassName", otherwise=NONE)),
        Column("Hosts", cell=_hosts),
        Column("Address", cell=_address),
        Column("Ports", cell=lambda obj, now: "80, 443" if obj["spec"].get("tls") else "80"),
        AGE,
    ),
    "ingressclasses.networking.k8s.io": (
        default_class_name_column("ingressclass.kubernetes.io/is-default-class"),
        Column("Controller", cell=field_cell("spec", "controller")),
        Column("Parameters", cell=_parameters),
        AGE,
    ),
    "networkpolicies.networking.k8s.io": (Column("Pod-Selector", cell=selector_cell("spec", "podSelector")), AGE),
    "ipaddresses.networking.k8s.io": (Column("ParentRef", cell=_parent), AGE),
    "servicecidrs.networking.k8s.io": (Column("CIDRs", cell=joined_list_cell("spec", "cidrs", otherwise="")), AGE),
}
