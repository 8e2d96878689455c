"""The catalogue of upstream's built-in resources, and the profiles that serve them. Generated data, read lazily.

Returned objects are shared by all callers and must not be modified.
"""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass
from functools import cache
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class Subresource:
    name: str
    group: str
    version: str
    kind: str
    """Group, version and kind of the request and response body: `policy/v1 Eviction` for pods/eviction."""
    verbs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BuiltinResource:
    group: str
    version: str
    plural: str
    kind: str
    singular: str
    namespaced: bool
    verbs: tuple[str, ...]
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()
    storage_version_hash: str = ""
    """The discovery value. Empty for resources that are not stored (reviews, bindings)."""
    selectable_fields: tuple[str, ...] = ()
    """Field selectors besides metadata.name and metadata.namespace."""
    name_rule: str = "dns-subdomain"
    """dns-subdomain, dns-label, path-segment, config-map-key, ip, cluster-trust-bundle or storage-version."""
    deprecation_warning: str = ""
    """The Warning header of every response, or empty."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


_HUB_RESOURCES = {
    "v1": {"configmaps", "events", "namespaces", "secrets", "serviceaccounts"},
    "events.k8s.io/v1": {"events"},
    "certificates.k8s.io/v1": {"certificatesigningrequests"},
    "coordination.k8s.io/v1": {"leases"},
    "rbac.authorization.k8s.io/v1": {"clusterrolebindings", "clusterroles", "rolebindings", "roles"},
    "apiextensions.k8s.io/v1": {"customresourcedefinitions"},
    "authentication.k8s.io/v1": {"selfsubjectreviews", "tokenreviews"},
    "authorization.k8s.io/v1": {
        "localsubjectaccessreviews",
        "selfsubjectaccessreviews",
        "selfsubjectrulesreviews",
        "subjectaccessreviews",
    },
}


def find_builtin(group: str, version: str, plural: str) -> BuiltinResource:
    """Raises KeyError if upstream has no such resource."""
    return _resources_by_gvr()[group, version, plural]


def builtin_resources() -> list[BuiltinResource]:
    """Returns all resources, alpha and beta included, in discovery order of groups, versions and resources."""
    return list(_resources_by_gvr().values())


def profile_builtins(name: str) -> list[BuiltinResource]:
    """Returns the resources a logical cluster of a profile serves: `hub` the basic kinds, `cluster` all stable ones."""
    if name == "hub":
        return [b for b in _resources_by_gvr().values() if b.plural in _HUB_RESOURCES.get(b.api_version, ())]
    if name == "cluster":
        return [b for b in _resources_by_gvr().values() if b.version[1:].isdigit()]
    raise KeyError(f"unknown profile {name!r}: must be hub or cluster")


@cache
def default_rbac() -> dict[str, list[dict[str, Any]]]:
    """Returns the default roles and bindings of every cluster by plural. Aggregated roles have no rules."""
    objects_by_plural: dict[str, list[dict[str, Any]]] = {}
    for item in _load_data("rbac.json"):
        objects_by_plural.setdefault(item["kind"].lower() + "s", []).append(item)
    return objects_by_plural


@cache
def _resources_by_gvr() -> dict[tuple[str, str, str], BuiltinResource]:
    return {
        (row["group"], row["version"], row["plural"]): _resource_from_row(row) for row in _load_data("resources.json")
    }


def _resource_from_row(row: dict[str, Any]) -> BuiltinResource:
    return BuiltinResource(
        group=row["group"],
        version=row["version"],
        plural=row["plural"],
        kind=row["kind"],
        singular=row["singular"],
        namespaced=row["namespaced"],
        verbs=tuple(row["verbs"]),
        short_names=tuple(row.get("shortNames", ())),
        categories=tuple(row.get("categories", ())),
        subresources=tuple(
            Subresource(name, group, version, kind, tuple(verbs))
            for name, group, version, kind, verbs in row.get("subresources", ())
        ),
        storage_version_hash=row.get("storageVersionHash", ""),
        selectable_fields=tuple(row.get("selectable", ())),
        name_rule=row.get("nameRule", "dns-subdomain"),
        deprecation_warning=row.get("deprecated", ""),
    )


def _load_data(name: str) -> Any:
    return orjson.loads(pkgutil.get_data("shoal.kinds", f"data/{name}") or b"[]")
