"""Projections: how webhooks see an object, and how their changes are merged back. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Form:
    """How webhooks see the object, if that is not the object itself."""

    show: Callable[[Object], Object]
    take: Callable[[Object, Object], Object]
    """(object, patched projection) -> object."""
    typed: bool = True
    """The projection has the kind of the resource and is therefore pruned and defaulted by its schema."""


def _taken(obj: Object, patched: Object) -> Object:
    """Keeps managedFields: webhooks cannot change them."""
    owners = obj["metadata"].get("managedFields")
    patched["metadata"].pop("managedFields", None)
    if owners:
        patched["metadata"]["managedFields"] = owners
    return patched


WHOLE = Form(lambda obj: obj, _taken)
BODY = Form(lambda obj: obj, lambda obj, patched: patched, typed=False)
"""The body of a subresource with another kind: a Binding, an Eviction."""


def new_form(generated: bool) -> Form:
    """The projection of an object to be created: before validation it has no uid, no creation time and no generated
    name.
    """
    hidden = ("uid", "creationTimestamp", "generation", *(("name",) if generated else ()))

    def show(obj: Object) -> Object:
        return {**obj, "metadata": {k: v for k, v in obj["metadata"].items() if k not in hidden}}

    def take(obj: Object, patched: Object) -> Object:
        metadata = patched["metadata"]
        for key in hidden:
            if key in obj["metadata"] and not (key == "name" and metadata.get("name")):
                metadata[key] = obj["metadata"][key]
        return _taken(obj, patched)

    return Form(show, take)
