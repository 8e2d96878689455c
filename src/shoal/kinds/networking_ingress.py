"""Ingress of networking.k8s.io/v1: defaults and validation. Pure."""

from __future__ import annotations

from shoal.kinds.checks import Object, is_host, is_port_name, parse_ip, port_number, said, section, unchanged
from shoal.objects.errors import Cause, invalid_value, not_supported, required
from shoal.objects.names import is_dns1123_label, is_dns1123_subdomain, is_path_segment_name

CLASS_ANNOTATION = "kubernetes.io/ingress.class"
_FORBIDDEN_PARTS = ("//", "/./", "/../", "%2f", "%2F")
_FORBIDDEN_ENDS = ("/..", "/.")
_NOT_AN_IP = "must be a DNS name, not an IP address"
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")


def default_ingress(obj: Object) -> None:
    section(obj, "spec")
    section(section(obj, "status"), "loadBalancer")


def validate_ingress(obj: Object, old: Object | None) -> list[Cause]:
    causes = _load_balancer((obj.get("status") or {}).get("loadBalancer") or {})
    if unchanged(obj, old):
        return causes
    spec = obj["spec"]
    rules, backend = spec.get("rules") or [], spec.get("defaultBackend")
    if not rules and backend is None:
        causes.append(invalid_value("spec", spec.get("rules"), "either `defaultBackend` or `rules` must be specified"))
    if backend is not None:
        causes += _backend(backend, "spec.defaultBackend")
    for i, rule in enumerate(rules):
        causes += _rule(rule, f"spec.rules[{i}]")
    for i, tls in enumerate(spec.get("tls") or ()):
        for j, host in enumerate(tls.get("hosts") or ()):
            causes += said(f"spec.tls[{i}].hosts[{j}]", host, is_host(host))
        if tls.get("secretName"):
            causes += said(f"spec.tls[{i}].secretName", tls["secretName"], is_dns1123_subdomain(tls["secretName"]))
    return causes + _class(obj, old)


def _class(obj: Object, old: Object | None) -> list[Cause]:
    name = obj["spec"].get("ingressClassName")
    if name is None:
        return []
    causes = said("spec.ingressClassName", name, is_dns1123_subdomain(name))
    annotated = (obj["metadata"].get("annotations") or {}).get(CLASS_ANNOTATION)
    if old is None and annotated is not None and annotated != name:
        path = f"annotations.{CLASS_ANNOTATION}"
        causes.append(invalid_value(path, annotated, "must match `ingressClassName` when both are specified"))
    return causes


def _rule(rule: Object, path: str) -> list[Cause]:
    host, http = rule.get("host") or "", rule.get("http")
    causes: list[Cause] = []
    if host:
        if parse_ip(host) is not None:
            causes.append(invalid_value(f"{path}.host", host, _NOT_AN_IP))
        causes += said(f"{path}.host", host, is_host(host))
    if http is None:
        return causes
    paths = http.get("paths") or []
    if not paths:
        causes.append(required(f"{path}.http.paths"))
    for i, entry in enumerate(paths):
        causes += _path(entry, f"{path}.http.paths[{i}]")
    return causes


def _path(entry: Object, path: str) -> list[Cause]:
    kind, text = entry.get("pathType"), entry.get("path") or ""
    if kind is None:
        return [required(f"{path}.pathType", "pathType must be specified")]
    causes: list[Cause] = []
    if kind not in _PATH_TYPES:
        causes.append(not_supported(f"{path}.pathType", kind, _PATH_TYPES))
    elif not text.startswith("/") and (text or kind != "ImplementationSpecific"):
        causes.append(invalid_value(f"{path}.path", text, "must be an absolute path"))
    if kind in ("Exact", "Prefix"):
        causes += said(f"{path}.path", text, (f"must not contain '{p}'" for p in _FORBIDDEN_PARTS if p in text))
        causes += said(f"{path}.path", text, (f"cannot end with '{e}'" for e in _FORBIDDEN_ENDS if text.endswith(e)))
    return causes + _backend(entry.get("backend") or {}, f"{path}.backend")


def _backend(backend: Object, path: str) -> list[Cause]:
    resource, service = backend.get("resource"), backend.get("service")
    if resource is not None and service is not None:
        return [invalid_value(path, "", "cannot set both resource and service backends")]
    if resource is not None:
        causes: list[Cause] = []
        if resource.get("apiGroup") is not None:
            group = resource["apiGroup"]
            causes += said(f"{path}.resource.apiGroup", group, is_dns1123_subdomain(group))
        for field in ("kind", "name"):
            value, here = resource.get(field) or "", f"{path}.resource.{field}"
            causes += said(here, value, is_path_segment_name(value)) if value else [required(here)]
        return causes
    return (
        [invalid_value(path, "", "resource or service backend is required")]
        if service is None
        else _service(service, path)
    )


def _service(service: Object, path: str) -> list[Cause]:
    name, port = service.get("name") or "", service.get("port") or {}
    here = f"{path}.service.name"
    causes = said(here, name, is_dns1123_label(name)) if name else [required(here)]
    port_name, number = port.get("name"), port.get("number")
    if port_name and number:
        causes.append(invalid_value(path, "", "cannot set both port name & port number"))
    elif port_name:
        causes += said(f"{path}.service.port.name", port_name, is_port_name(port_name))
    elif number:
        causes += port_number(number, f"{path}.service.port.number")
    else:
        causes.append(required(path, "port name or number is required"))
    return causes


def _load_balancer(status: Object) -> list[Cause]:
    causes: list[Cause] = []
    for i, ingress in enumerate(status.get("ingress") or ()):
        path, address, host = f"status.loadBalancer.ingress[{i}]", ingress.get("ip"), ingress.get("hostname")
        if address and parse_ip(address) is None:
            said_ = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            causes.append(invalid_value(f"{path}.ip", address, said_))
        if host:
            causes += said(f"{path}.hostname", host, is_dns1123_subdomain(host))
            if parse_ip(host) is not None:
                causes.append(invalid_value(f"{path}.hostname", host, _NOT_AN_IP))
    return causes
