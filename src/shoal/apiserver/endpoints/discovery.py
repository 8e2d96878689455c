"""/api and /apis: the groups, versions and resources a logical cluster serves, plain and aggregated.

Documents are cached per registry. A registry is immutable and replaced as a whole, so the cache needs no invalidation.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any
from weakref import WeakKeyDictionary

import orjson

from shoal.apiserver.registry.registry import Registry, Resource
from shoal.objects.errors import NotFound
from shoal.objects.wire import Request, Response

Object = dict[str, Any]

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"


class DiscoveryHandler:
    def __init__(self) -> None:
        self._cache: WeakKeyDictionary[Registry, dict[str, tuple[bytes, str]]] = WeakKeyDictionary()

    def handle(self, registry: Registry, path: str, request: Request) -> Response:
        """Handles /api, /api/v1, /apis, /apis/GROUP and /apis/GROUP/VERSION."""
        version = _aggregated_version(request.headers.get("accept", "")) if path in ("/api", "/apis") else ""
        cached = self._cache.setdefault(registry, {})
        key = f"{path} {version}"
        if key not in cached:
            body = orjson.dumps(_discovery_document(registry, path, version))
            cached[key] = body, '"' + hashlib.sha256(body).hexdigest().upper() + '"'
        body, etag = cached[key]
        headers = (("Vary", "Accept"), ("ETag", etag))
        kind = AGGREGATED.format(version) if version else "application/json"
        if request.headers.get("if-none-match") == etag:
            # Sent with its content type: clients merge these headers into the response they cached.
            return Response(304, b"", content_type=kind, headers=headers)
        return Response(200, body, content_type=kind, headers=headers)


def _aggregated_version(accept: str) -> str:
    for clause in accept.replace(" ", "").split(","):
        media, *params = clause.split(";")
        if media not in ("application/json", "application/*", "*/*"):
            continue
        if "as=APIGroupDiscoveryList" in params and "g=apidiscovery.k8s.io" in params:
            for version in ("v2beta1", "v2"):
                if f"v={version}" in params:
                    return version
        elif not any(param.startswith("as=") for param in params):
            return ""
    return ""


def _discovery_document(registry: Registry, path: str, version: str) -> Object:
    parts = path.strip("/").split("/")
    if version:
        groups = [""] if path == "/api" else [g for g in registry.groups() if g]
        items = [_aggregated_group(registry, group) for group in groups]
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": f"apidiscovery.k8s.io/{version}",
            "metadata": {},
            "items": items,
        }
    if path == "/api":
        address = [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}]
        return {"kind": "APIVersions", "versions": registry.versions(""), "serverAddressByClientCIDRs": address}
    if path == "/apis":
        groups_found = [_api_group(registry, group) for group in registry.groups() if group]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups_found}
    if parts[0] == "apis" and len(parts) == 2:
        if parts[1] not in registry.groups():
            raise NotFound("the server could not find the requested resource")
        return {"kind": "APIGroup", "apiVersion": "v1", **_api_group(registry, parts[1])}
    group = parts[1] if parts[0] == "apis" else ""
    resources = registry.resources(group, parts[-1])
    if not resources:
        raise NotFound("the server could not find the requested resource")
    api_resources = [line for resource in resources for line in _api_resources(resource)]
    group_version = f"{group}/{parts[-1]}" if group else parts[-1]
    body: Object = {"kind": "APIResourceList"}
    if group:
        body["apiVersion"] = "v1"
    return {**body, "groupVersion": group_version, "resources": api_resources}


def _api_group(registry: Registry, group: str) -> Object:
    versions = [{"groupVersion": f"{group}/{version}", "version": version} for version in registry.versions(group)]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def _api_resources(resource: Resource) -> list[Object]:
    """A resource and its subresources as in plain discovery, keys in Go's order."""
    line: Object = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": sorted(resource.verbs) if not resource.custom else list(resource.verbs),
    }
    if resource.short_names:
        line["shortNames"] = list(resource.short_names)
    if resource.categories:
        line["categories"] = list(resource.categories)
    if resource.custom:
        stored = f"{resource.group}/{resource.storage_version}/{resource.kind}"
        line["storageVersionHash"] = base64.b64encode(hashlib.sha256(stored.encode()).digest()[:8]).decode()
    elif resource.schema_hash:
        line["storageVersionHash"] = resource.schema_hash
    lines = [line]
    for name, group, version, kind, verbs in subresources_of(resource):
        sub: Object = {"name": f"{resource.plural}/{name}", "singularName": "", "namespaced": resource.namespaced}
        if (group, version) != (resource.group, resource.version):
            sub.update(group=group, version=version)
        sub.update(kind=kind, verbs=list(verbs))
        lines.append(sub)
    return lines


def subresources_of(resource: Resource) -> list[tuple[str, str, str, str, tuple[str, ...]]]:
    """All subresources by name, each with the group, version and kind it accepts and its verbs."""
    verbs = ("get", "patch", "update")
    subresources = [(name, *rest) for name, rest in resource.subresources.items()]
    if resource.status:
        subresources.append(("status", resource.group, resource.version, resource.kind, verbs))
    if resource.scale is not None:
        subresources.append(("scale", "autoscaling", "v1", "Scale", verbs))
    return subresources if resource.custom else sorted(subresources)


def _aggregated_group(registry: Registry, group: str) -> Object:
    versions = []
    for version in registry.versions(group):
        resources = [_aggregated_resource(resource) for resource in registry.resources(group, version)]
        versions.append({"version": version, "resources": resources, "freshness": "Current"})
    return {"metadata": {"name": group} if group else {}, "versions": versions}


def _aggregated_resource(resource: Resource) -> Object:
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    item: Object = {
        "resource": resource.plural,
        "responseKind": kind,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        item["shortNames"] = list(resource.short_names)
    if resource.categories:
        item["categories"] = list(resource.categories)
    subresources = [
        {"subresource": name, "responseKind": {"group": g, "version": v, "kind": k}, "verbs": list(verbs)}
        for name, g, v, k, verbs in subresources_of(resource)
    ]
    if subresources:
        item["subresources"] = subresources
    return item
