"""Builds the served resources of a CustomResourceDefinition."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import orjson

from shoal.apiserver.cache import Entry
from shoal.apiserver.model import Model
from shoal.apiserver.registry import Column, Resource, ScalePaths
from shoal.apiserver.rules import Rules
from shoal.kinds import apiextensions, capi, embedded, fleet, logicalcluster, versions
from shoal.kinds.apiextensions_publish import published_schema
from shoal.kinds.own import own_definitions
from shoal.kinds.webhooks import read_conversion

Object = dict[str, Any]

CUSTOM = Rules(generation=True, unconditional=False)
_HOSTED = Rules(generation=True, unconditional=False, validate=versions.validate_hosted)
OWN = {
    (logicalcluster.GROUP, logicalcluster.PLURAL): Rules(
        generation=True,
        unconditional=False,
        prepare_create=logicalcluster.prepare_create,
        prepare_delete=logicalcluster.prepare_delete,
        validate=versions.validate_logical_cluster,
    ),
    (embedded.GROUP, "embeddedclusters"): _HOSTED,
    (fleet.GROUP, "managedclusters"): replace(_HOSTED, prepare_create=fleet.prepare_create),
    (fleet.GROUP, "workers"): replace(CUSTOM, validate=fleet.validate_worker),
    (capi.GROUP, "machinepools"): Rules(generation=True, unconditional=False, validate=capi.refuse_machine_pool),
}
"""Shoal's own kinds are ordinary CRDs, except for what the server fills in."""

PRESERVE: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")


class Definitions:
    """Caches the resources by CRD and revision, so that a registry with a hundred CRDs rebuilds only one of them."""

    def __init__(self) -> None:
        self._models: WeakValueDictionary[str, Model] = WeakValueDictionary()
        self._made: dict[str, dict[str, tuple[int, list[Resource]]]] = {}
        """By cluster and CRD name: revision and resources."""
        self._own: dict[str, list[Resource]] = {}

    def resources(self, cluster: str, entry: Entry) -> list[Resource]:
        if entry.virtual:
            return self._shared(entry)
        known = self._made.setdefault(cluster, {})
        revision, made = known.get(entry.name, (0, []))
        if revision != entry.revision:
            made = self._make(entry.object())
            known[entry.name] = entry.revision, made
        return made

    def forget(self, cluster: str, name: str = "") -> None:
        """Forgets one deleted CRD, or all CRDs of an idle cluster."""
        if name:
            self._made.get(cluster, {}).pop(name, None)
        else:
            self._made.pop(cluster, None)

    def own(self, profile: str) -> list[Resource]:
        """Resources of the CRDs every cluster of that profile starts with."""
        found = own_definitions(profile) if profile == "cluster" else ()
        return [resource for crd in found for resource in self._make(crd)]

    def _shared(self, entry: Entry) -> list[Resource]:
        """Resources of an unwritten bootstrap CRD, which is the same in every cluster except for its uid."""
        made = self._own.get(entry.name)
        if made is None:
            made = self._own[entry.name] = self._make(entry.object())
        return made

    def _make(self, crd: Object) -> list[Resource]:
        if not apiextensions.is_true(crd, apiextensions.ESTABLISHED):
            return []
        return [self._resource(crd, version) for version in apiextensions.served_versions(crd)]

    def _resource(self, crd: Object, version: str) -> Resource:
        spec = crd["spec"]
        names = crd["status"]["acceptedNames"]
        schema = apiextensions.schema_of(crd, version) or PRESERVE
        digest = hashlib.sha256(orjson.dumps([spec["group"], version, schema], option=orjson.OPT_SORT_KEYS)).hexdigest()
        model = self._models.get(digest)
        if model is None:
            model = self._models[digest] = Model(schema)
        conversion = read_conversion(crd)
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
            storage_version=apiextensions.storage_version(crd),
            custom=True,
            status=apiextensions.has_status(crd, version),
            scale=_scale(apiextensions.scale_of(crd, version)),
            columns=tuple(_column(column) for column in apiextensions.printer_columns(crd, version)),
            selectable=tuple(apiextensions.selectable_fields(crd, version)),
            schema=partial(published_schema, crd, version),
            schema_hash=digest,
            model=partial(_same, model),
            rules=OWN.get((group, plural), CUSTOM),
            conversion=conversion,
            deprecated=apiextensions.deprecation_warning(crd, version),
        )


def _same(model: Model) -> Model:
    return model


def _scale(paths: Mapping[str, str] | None) -> ScalePaths | None:
    if paths is None:
        return None
    return ScalePaths(paths["specReplicasPath"], paths["statusReplicasPath"], paths.get("labelSelectorPath", ""))


def _column(column: Object) -> Column:
    return Column(
        name=column["name"],
        type=column.get("type", "string"),
        format=column.get("format", ""),
        description=column.get("description", ""),
        priority=column.get("priority", 0),
        path=column["jsonPath"],
    )
