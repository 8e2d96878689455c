"""Projections: how webhooks see an object, and how their changes are merged back. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Projection:
    """How webhooks see the object, if that is not the object itself."""

    project: Callable[[Object], Object]
    merge_back: Callable[[Object, Object], Object]
    """(object, patched projection) -> object."""
    typed: bool = True
    """The projection has the kind of the resource and is therefore pruned and defaulted by its schema."""


def _keep_managed_fields(obj: Object, patched: Object) -> Object:
    """Keeps managedFields: webhooks cannot change them."""
    owners = obj["metadata"].get("managedFields")
    patched["metadata"].pop("managedFields", None)
    if owners:
        patched["metadata"]["managedFields"] = owners
    return patched


WHOLE_OBJECT = Projection(lambda obj: obj, _keep_managed_fields)
SUBRESOURCE_BODY = Projection(lambda obj: obj, lambda obj, patched: patched, typed=False)
"""The body of a subresource with another kind: a Binding, an Eviction."""


def creation_projection(generated: bool) -> Projection:
    """The projection of an object to be created: before validation it has no uid, no creation time and no generated
    name.
    """
    hidden = ("uid", "creationTimestamp", "generation", *(("name",) if generated else ()))

    def project(obj: Object) -> Object:
        return {**obj, "metadata": {k: v for k, v in obj["metadata"].items() if k not in hidden}}

    def merge_back(obj: Object, patched: Object) -> Object:
        metadata = patched["metadata"]
        for key in hidden:
            if key in obj["metadata"] and not (key == "name" and metadata.get("name")):
                metadata[key] = obj["metadata"][key]
        return _keep_managed_fields(obj, patched)

    return Projection(project, merge_back)
