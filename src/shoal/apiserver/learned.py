"""Negotiated resources: what a published NegotiatedAPIResource makes a hub serve.

A kind of Kubernetes is served by its built-in implementation, so that clients find the built-in they know. The
negotiated schema restricts it: a field outside that schema is unknown, and a value it rejects is rejected. Any other
kind needs a CustomResourceDefinition and is not handled here.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import replace
from functools import cache, partial
from typing import Any

import orjson

from shoal.apiserver import builtins
from shoal.apiserver.cache import Entry
from shoal.apiserver.model import Model
from shoal.apiserver.registry import Resource
from shoal.kinds.apiresource import GROUP, NEGOTIATED_PLURAL, api_of
from shoal.kinds.apischema import digest_of, schema_of
from shoal.kinds.definitions import closure, definition_of
from shoal.objects import schema as schemas
from shoal.objects.errors import BadRequest, Cause, ShoalError

log = logging.getLogger("shoal.apiserver")

Object = dict[str, Any]

LEARNED = (GROUP, NEGOTIATED_PLURAL)
NEEDED = {"create", "list", "watch"}
"""Resources that are not stored (reviews, bindings) are not negotiated."""
REMEMBERED = 256
_restricted: OrderedDict[tuple[Resource, str], Resource] = OrderedDict()


class Restricted(Model):
    """A built-in's schema that accepts only what another schema accepts too."""

    def __init__(self, whole: Model, schema: Object) -> None:
        super().__init__(whole.schema, whole.resolve, whole.found)
        self._narrow = schemas.compile(schema)

    def prune(self, obj: Object, *, collect: bool) -> list[str]:
        complaints = super().prune(obj, collect=collect)
        if collect:
            return [*complaints, *self._narrow.prune_unknown(obj)]
        self._narrow.prune(obj)
        return complaints

    def check_declared(self, config: Object, kind: str) -> None:
        """Rejects fields outside the negotiated schema, as for any built-in: an unknown field cannot be owned."""
        unknown = self._narrow.prune_unknown(orjson.loads(orjson.dumps(config)))
        if unknown:
            raise BadRequest(f"failed to create typed patch object ({kind}): {', '.join(unknown)}")

    def validate(
        self, obj: Object, old: Object | None, *, status: bool, warnings: list[str] | None = None
    ) -> list[Cause]:
        return self._narrow.validate_status(obj, old) if status else self._narrow.validate(obj, old)


def taught(entry: Entry | None) -> Resource | None:
    """Returns the resource the object makes its cluster serve. The same kind and schema give the same resource, so
    results can be compared by `is`.
    """
    if entry is None:
        return None
    obj = entry.object()
    try:
        if not obj["spec"].get("publish"):
            return None
        found = builtins.resource(*api_of(obj))
        if found is None or not set(found.verbs) >= NEEDED:
            return None
        return narrowed(found, obj["spec"].get("openAPIV3Schema"))
    except (KeyError, TypeError, AttributeError, ShoalError):
        log.warning("%s %s is not readable and teaches nothing", NEGOTIATED_PLURAL, entry.name)
        return None


def narrowed(whole: Resource, schema: Object | None) -> Resource:
    """Returns the same resource for the same schema, and the unrestricted one if the schema leaves nothing out."""
    if not schema:
        return whole
    digest = digest_of(schema)
    if digest == _own_digest(whole.group, whole.version, whole.kind):
        return whole  # most clusters have the same schema as this server: nothing to restrict
    key = whole, digest
    made = _restricted.get(key)
    if made is None:
        made = _restricted[key] = replace(whole, model=partial(_same, Restricted(whole.model(), schema)))
        while len(_restricted) > REMEMBERED:
            _restricted.popitem(last=False)
    return made


@cache
def _own_digest(group: str, version: str, kind: str) -> str:
    return digest_of(schema_of(closure([definition_of(group, version, kind)]), group, version, kind))


def _same(model: Model) -> Model:
    return model
