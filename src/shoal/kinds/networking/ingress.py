"""Ingress of networking.k8s.io/v1: defaults, validation and warnings. Pure."""

from __future__ import annotations

from shoal.kinds.validation.field import (
    Object,
    ensure_map,
    invalid_causes,
    is_dns1123_or_wildcard_subdomain,
    is_port_name,
    is_unchanged,
    parse_ip,
    validate_port_number,
)
from shoal.objects.errors import Cause, invalid_value, not_supported, required_value
from shoal.objects.names import is_dns1123_label, is_dns1123_subdomain, is_path_segment_name

CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_FORBIDDEN_PATH_PARTS = ("//", "/./", "/../", "%2f", "%2F")
_FORBIDDEN_PATH_SUFFIXES = ("/..", "/.")
_NOT_AN_IP = "must be a DNS name, not an IP address"
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")


def default_ingress(obj: Object) -> None:
    ensure_map(obj, "spec")
    ensure_map(ensure_map(obj, "status"), "loadBalancer")


def validate_ingress(obj: Object, old: Object | None) -> list[Cause]:
    causes = _validate_load_balancer((obj.get("status") or {}).get("loadBalancer") or {})
    if is_unchanged(obj, old):
        return causes
    spec = obj["spec"]
    rules, backend = spec.get("rules") or [], spec.get("defaultBackend")
    if not rules and backend is None:
        causes.append(invalid_value("spec", spec.get("rules"), "either `defaultBackend` or `rules` must be specified"))
    if backend is not None:
        causes += _validate_backend(backend, "spec.defaultBackend")
    for i, rule in enumerate(rules):
        causes += _validate_rule(rule, f"spec.rules[{i}]")
    for i, tls in enumerate(spec.get("tls") or ()):
        for j, host in enumerate(tls.get("hosts") or ()):
            causes += invalid_causes(f"spec.tls[{i}].hosts[{j}]", host, is_dns1123_or_wildcard_subdomain(host))
        if tls.get("secretName"):
            causes += invalid_causes(
                f"spec.tls[{i}].secretName", tls["secretName"], is_dns1123_subdomain(tls["secretName"])
            )
    return causes + _validate_class_name(obj, old)


def ingress_warnings(obj: Object, old: Object | None) -> list[str]:
    has_class_annotation = CLASS_ANNOTATION in (obj["metadata"].get("annotations") or {})
    if old is not None or not has_class_annotation or obj["spec"].get("ingressClassName") is not None:
        return []
    return [f"annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"]


def _validate_class_name(obj: Object, old: Object | None) -> list[Cause]:
    name = obj["spec"].get("ingressClassName")
    if name is None:
        return []
    causes = invalid_causes("spec.ingressClassName", name, is_dns1123_subdomain(name))
    annotation_class = (obj["metadata"].get("annotations") or {}).get(CLASS_ANNOTATION)
    if old is None and annotation_class is not None and annotation_class != name:
        path = f"annotations.{CLASS_ANNOTATION}"
        causes.append(invalid_value(path, annotation_class, "must match `ingressClassName` when both are specified"))
    return causes


def _validate_rule(rule: Object, path: str) -> list[Cause]:
    host, http = rule.get("host") or "", rule.get("http")
    causes: list[Cause] = []
    if host:
        if parse_ip(host) is not None:
            causes.append(invalid_value(f"{path}.host", host, _NOT_AN_IP))
        causes += invalid_causes(f"{path}.host", host, is_dns1123_or_wildcard_subdomain(host))
    if http is None:
        return causes
    paths = http.get("paths") or []
    if not paths:
        causes.append(required_value(f"{path}.http.paths"))
    for i, entry in enumerate(paths):
        causes += _validate_http_path(entry, f"{path}.http.paths[{i}]")
    return causes


def _validate_http_path(entry: Object, path: str) -> list[Cause]:
    kind, text = entry.get("pathType"), entry.get("path") or ""
    if kind is None:
        return [required_value(f"{path}.pathType", "pathType must be specified")]
    causes: list[Cause] = []
    if kind not in _PATH_TYPES:
        causes.append(not_supported(f"{path}.pathType", kind, _PATH_TYPES))
    elif not text.startswith("/") and (text or kind != "ImplementationSpecific"):
        causes.append(invalid_value(f"{path}.path", text, "must be an absolute path"))
    if kind in ("Exact", "Prefix"):
        causes += invalid_causes(
            f"{path}.path", text, (f"must not contain '{p}'" for p in _FORBIDDEN_PATH_PARTS if p in text)
        )
        causes += invalid_causes(
            f"{path}.path", text, (f"cannot end with '{e}'" for e in _FORBIDDEN_PATH_SUFFIXES if text.endswith(e))
        )
    return causes + _validate_backend(entry.get("backend") or {}, f"{path}.backend")


def _validate_backend(backend: Object, path: str) -> list[Cause]:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        return [invalid_value(path, "", "cannot set both resource and service backends")]
    if resource is not None:
        causes: list[Cause] = []
        if resource.get("apiGroup") is not None:
            group = resource["apiGroup"]
            causes += invalid_causes(f"{path}.resource.apiGroup", group, is_dns1123_subdomain(group))
        for field in ("kind", "name"):
            value, field_path = resource.get(field) or "", f"{path}.resource.{field}"
            causes += (
                invalid_causes(field_path, value, is_path_segment_name(value))
                if value
                else [required_value(field_path)]
            )
        return causes
    return (
        [invalid_value(path, "", "resource or service backend is required")]
        if service is None
        else _validate_service_backend(service, path)
    )


def _validate_service_backend(service: Object, path: str) -> list[Cause]:
    name, port = service.get("name") or "", service.get("port") or {}
    field_path = f"{path}.service.name"
    causes = invalid_causes(field_path, name, is_dns1123_label(name)) if name else [required_value(field_path)]
    port_name, number = port.get("name"), port.get("number")
    if port_name and number:
        causes.append(invalid_value(path, "", "cannot set both port name & port number"))
    elif port_name:
        causes += invalid_causes(f"{path}.service.port.name", port_name, is_port_name(port_name))
    elif number:
        causes += validate_port_number(number, f"{path}.service.port.number")
    else:
        causes.append(required_value(path, "port name or number is required"))
    return causes


def _validate_load_balancer(status: Object) -> list[Cause]:
    causes: list[Cause] = []
    for i, ingress in enumerate(status.get("ingress") or ()):
        path, address, host = f"status.loadBalancer.ingress[{i}]", ingress.get("ip"), ingress.get("hostname")
        if address and parse_ip(address) is None:
            detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            causes.append(invalid_value(f"{path}.ip", address, detail))
        if host:
            causes += invalid_causes(f"{path}.hostname", host, is_dns1123_subdomain(host))
            if parse_ip(host) is not None:
                causes.append(invalid_value(f"{path}.hostname", host, _NOT_AN_IP))
    return causes
