"""Resources as sent to a child process: built-in ones by name, custom ones with their schema.

A child compiles a schema once and keeps it. The schema is sent with every task, which costs less than to keep account
of what each child has.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import Any

import orjson

from shoal.apiserver.registry import builtins, mirrored_pods
from shoal.apiserver.registry.crds import SHOAL_STRATEGIES
from shoal.apiserver.registry.negotiated import RestrictedSchema
from shoal.apiserver.registry.registry import Resource
from shoal.apiserver.registry.schema import KindSchema
from shoal.kinds.core.pod.subresources import SUBRESOURCE_STRATEGIES
from shoal.kinds.strategy import CUSTOM_STRATEGY, Strategy

Object = dict[str, Any]

CACHE_SIZE = 64
_SENT_FIELDS = (
    *("group", "version", "plural", "kind", "singular", "namespaced", "storage_version", "custom", "status"),
    "deprecation_warning",
)


def encode_resource(resource: Resource) -> tuple[Object, bytes]:
    """Returns the form and the schema, which is empty for a built-in kind."""
    form: Object = {field: getattr(resource, field) for field in _SENT_FIELDS}
    form["strategy"] = next((name for name, strategy in _pod_strategies() if strategy is resource.strategy), "")
    kind_schema = resource.kind_schema()
    return form, kind_schema.definition


def _pod_strategies() -> list[tuple[str, Strategy]]:
    return [*SUBRESOURCE_STRATEGIES.items(), ("mirrored", mirrored_pods.pod_resource().strategy)]


class ResourceDecoder:
    """Of a child process. Keeps the resources that were used last."""

    def __init__(self) -> None:
        self._resources: OrderedDict[tuple[bytes, bytes], Resource] = OrderedDict()

    def decode(self, form: Object, schema: bytes) -> Resource:
        key = orjson.dumps(form), schema
        resource = self._resources.pop(key, None) or _build_resource(form, schema)
        self._resources[key] = resource
        while len(self._resources) > CACHE_SIZE:
            self._resources.popitem(last=False)
        return resource


def _build_resource(form: Object, schema: bytes) -> Resource:
    fields = {field: form[field] for field in _SENT_FIELDS}
    if form["custom"]:
        custom = KindSchema(orjson.loads(schema))
        strategy = SHOAL_STRATEGIES.get((form["group"], form["plural"]), CUSTOM_STRATEGY)
        return Resource(**fields, kind_schema=lambda: custom, strategy=strategy)
    builtin = builtins.builtin_resource(form["group"], form["version"], form["plural"])
    assert builtin is not None
    resource = replace(builtin, **fields, strategy=dict(_pod_strategies()).get(form["strategy"], builtin.strategy))
    if schema:
        restricted = RestrictedSchema(builtin.kind_schema(), orjson.loads(schema))
        resource = replace(resource, kind_schema=lambda: restricted)
    return resource
