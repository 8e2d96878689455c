"""Builds the served resources of a CustomResourceDefinition."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import orjson

from shoal.apiserver.cache.cacher import CachedObject
from shoal.apiserver.registry.registry import Resource
from shoal.apiserver.registry.schema import KindSchema
from shoal.kinds.admissionregistration.webhook_client import conversion_webhook_of
from shoal.kinds.apiextensions import customresourcedefinition
from shoal.kinds.apiextensions.publish import published_schema
from shoal.kinds.clusterapi import capi, embedded
from shoal.kinds.column import Column
from shoal.kinds.fleet import infrav1, logicalcluster
from shoal.kinds.shoal_crds import shoal_crds
from shoal.kinds.strategy import CUSTOM_STRATEGY, ScalePaths, Strategy
from shoal.objects.jsonpath import compile_path

Object = dict[str, Any]

SHOAL_STRATEGIES: dict[tuple[str, str], Strategy] = {
    **logicalcluster.STRATEGIES,
    **infrav1.STRATEGIES,
    **embedded.STRATEGIES,
    **capi.STRATEGIES,
}
"""Shoal's own kinds are ordinary CRDs, except for what the server fills in."""

SHOAL_SUBRESOURCES = infrav1.SUBRESOURCES
"""Subresources of Shoal's own kinds that a CRD cannot declare."""

PRESERVE_UNKNOWN_SCHEMA: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")


class CRDResources:
    """Caches the resources by CRD and revision, so that a registry with a hundred CRDs rebuilds only one of them."""

    def __init__(self) -> None:
        self._schemas: WeakValueDictionary[str, KindSchema] = WeakValueDictionary()
        self._cache: dict[str, dict[str, tuple[int, list[Resource]]]] = {}
        """By cluster and CRD name: revision and resources."""
        self._shared_cache: dict[str, list[Resource]] = {}

    def resources(self, cluster: str, entry: CachedObject) -> list[Resource]:
        if entry.virtual:
            return self._shared_resources(entry)
        cached = self._cache.setdefault(cluster, {})
        revision, resources = cached.get(entry.name, (0, []))
        if revision != entry.revision:
            resources = self._build_resources(entry.object())
            cached[entry.name] = entry.revision, resources
        return resources

    def forget(self, cluster: str, name: str = "") -> None:
        """Forgets one deleted CRD, or all CRDs of an idle cluster."""
        if name:
            self._cache.get(cluster, {}).pop(name, None)
        else:
            self._cache.pop(cluster, None)

    def default_resources(self, profile: str) -> list[Resource]:
        """Resources of the CRDs every cluster of that profile starts with."""
        crds = shoal_crds(profile) if profile == "cluster" else ()
        return [resource for crd in crds for resource in self._build_resources(crd)]

    def _shared_resources(self, entry: CachedObject) -> list[Resource]:
        """Resources of an unwritten bootstrap CRD, which is the same in every cluster except for its uid."""
        resources = self._shared_cache.get(entry.name)
        if resources is None:
            resources = self._shared_cache[entry.name] = self._build_resources(entry.object())
        return resources

    def _build_resources(self, crd: Object) -> list[Resource]:
        if not customresourcedefinition.is_condition_true(crd, customresourcedefinition.ESTABLISHED):
            return []
        return [self._build_resource(crd, version) for version in customresourcedefinition.served_versions(crd)]

    def _build_resource(self, crd: Object, version: str) -> Resource:
        spec = crd["spec"]
        names = crd["status"]["acceptedNames"]
        schema = customresourcedefinition.schema_of(crd, version) or PRESERVE_UNKNOWN_SCHEMA
        digest = hashlib.sha256(orjson.dumps([spec["group"], version, schema], option=orjson.OPT_SORT_KEYS)).hexdigest()
        kind_schema = self._schemas.get(digest)
        if kind_schema is None:
            kind_schema = self._schemas[digest] = KindSchema(schema)
        conversion = conversion_webhook_of(crd)
        if conversion is not None:
            # Objects converted by another webhook must not be reused for this one.
            digest = hashlib.sha256(digest.encode() + orjson.dumps(spec["conversion"])).hexdigest()
        terminating = "deletionTimestamp" in crd["metadata"]
        group, plural = spec["group"], names["plural"]
        return Resource(
            group=group,
            version=version,
            plural=plural,
            kind=names["kind"],
            singular=names.get("singular", ""),
            list_kind=names.get("listKind", ""),
            namespaced=spec["scope"] == "Namespaced",
            verbs=tuple(v for v in VERBS if not (terminating and v == "create")),
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            storage_version=customresourcedefinition.storage_version(crd),
            custom=True,
            status=customresourcedefinition.has_status(crd, version),
            scale=_scale_paths(customresourcedefinition.scale_subresource(crd, version)),
            subresources=SHOAL_SUBRESOURCES.get((group, plural), {}),
            columns=tuple(_printer_columns(customresourcedefinition.printer_columns(crd, version))),
            selectable_fields=tuple(customresourcedefinition.selectable_fields(crd, version)),
            schema=partial(published_schema, crd, version),
            schema_hash=digest,
            kind_schema=partial(_identity, kind_schema),
            strategy=SHOAL_STRATEGIES.get((group, plural), CUSTOM_STRATEGY),
            conversion=conversion,
            deprecation_warning=customresourcedefinition.deprecation_warning(crd, version),
        )


def _identity(kind_schema: KindSchema) -> KindSchema:
    return kind_schema


def _scale_paths(paths: Mapping[str, str] | None) -> ScalePaths | None:
    if paths is None:
        return None
    return ScalePaths(paths["specReplicasPath"], paths["statusReplicasPath"], paths.get("labelSelectorPath", ""))


def _printer_columns(columns: Iterable[Object]) -> Iterator[Column]:
    """Ends before the first column whose path is no JSONPath, as upstream. Validation checks only that it begins with a
    dot.
    """
    for column in columns:
        try:
            compile_path(column["jsonPath"])
        except ValueError:
            return
        yield Column(
            name=column["name"],
            type=column.get("type", "string"),
            format=column.get("format", ""),
            description=column.get("description", ""),
            priority=column.get("priority", 0),
            path=column["jsonPath"],
        )
