"""Negotiated resources: what a published NegotiatedAPIResource makes a hub serve.

A kind of Kubernetes is served by its built-in implementation, so that clients find the built-in they know. The
negotiated schema restricts it: a field outside that schema is unknown, and a value it rejects is rejected. Any other
kind needs a CustomResourceDefinition and is not handled here.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import replace
from functools import cache, cached_property, partial
from typing import Any

import orjson

from shoal.apiserver.cache.cacher import CachedObject
from shoal.apiserver.registry import builtins
from shoal.apiserver.registry.registry import Resource
from shoal.apiserver.registry.schema import KindSchema
from shoal.kinds.apiextensions.openapi_import import schema_digest, schema_of
from shoal.kinds.builtin_schemas import schema_closure, schema_name
from shoal.kinds.workload.apiresource import GROUP, NEGOTIATED_PLURAL, gvr_of
from shoal.objects import schema as schemas
from shoal.objects.errors import BadRequest, Cause, ShoalError

log = logging.getLogger("shoal.apiserver")

Object = dict[str, Any]

NEGOTIATED_RESOURCES = (GROUP, NEGOTIATED_PLURAL)
REQUIRED_VERBS = {"create", "list", "watch"}
"""Resources that are not stored (reviews, bindings) are not negotiated."""
CACHE_SIZE = 256
_restricted_cache: OrderedDict[tuple[Resource, str], Resource] = OrderedDict()


class RestrictedSchema(KindSchema):
    """A built-in's schema that accepts only what another schema accepts too."""

    def __init__(self, builtin: KindSchema, schema: Object) -> None:
        super().__init__(builtin.schema, builtin.resolve, builtin.definitions)
        self._negotiated = schemas.compile_schema(schema)
        self._schema = schema

    @cached_property
    def definition(self) -> bytes:
        return orjson.dumps(self._schema)

    def prune(self, obj: Object, *, collect: bool) -> list[str]:
        complaints = super().prune(obj, collect=collect)
        if collect:
            return [*complaints, *self._negotiated.prune_unknown(obj)]
        self._negotiated.prune(obj)
        return complaints

    def check_applied_config(self, config: Object, kind: str) -> None:
        """Rejects fields outside the negotiated schema, as for any built-in: an unknown field cannot be owned."""
        unknown = self._negotiated.prune_unknown(orjson.loads(orjson.dumps(config)))
        if unknown:
            raise BadRequest(f"failed to create typed patch object ({kind}): {', '.join(unknown)}")

    def validate(
        self,
        obj: Object,
        old: Object | None,
        *,
        status: bool,
        warnings: list[str] | None = None,
        in_loop: bool = False,
    ) -> list[Cause]:
        return self._negotiated.validate_status(obj, old) if status else self._negotiated.validate(obj, old)


def resource_from_negotiated(entry: CachedObject | None) -> Resource | None:
    """Returns the resource the object makes its cluster serve. The same kind and schema give the same resource, so
    results can be compared by `is`.
    """
    if entry is None:
        return None
    obj = entry.object()
    try:
        if not obj["spec"].get("publish"):
            return None
        builtin = builtins.builtin_resource(*gvr_of(obj))
        if builtin is None or not set(builtin.verbs) >= REQUIRED_VERBS:
            return None
        return restrict_schema(builtin, obj["spec"].get("openAPIV3Schema"))
    except (KeyError, TypeError, AttributeError, ShoalError):
        log.warning("ignoring NegotiatedAPIResource %s: cannot decode it", entry.name)
        return None


def restrict_schema(builtin: Resource, schema: Object | None) -> Resource:
    """Returns the same resource for the same schema, and the unrestricted one if the schema leaves nothing out."""
    if not schema:
        return builtin
    digest = schema_digest(schema)
    if digest == _builtin_digest(builtin.group, builtin.version, builtin.kind):
        return builtin  # most clusters have the same schema as this server: nothing to restrict
    key = builtin, digest
    restricted = _restricted_cache.get(key)
    if restricted is None:
        restricted = _restricted_cache[key] = replace(
            builtin, kind_schema=partial(_identity, RestrictedSchema(builtin.kind_schema(), schema))
        )
        while len(_restricted_cache) > CACHE_SIZE:
            _restricted_cache.popitem(last=False)
    return restricted


@cache
def _builtin_digest(group: str, version: str, kind: str) -> str:
    return schema_digest(schema_of(schema_closure([schema_name(group, version, kind)]), group, version, kind))


def _identity(kind_schema: KindSchema) -> KindSchema:
    return kind_schema
