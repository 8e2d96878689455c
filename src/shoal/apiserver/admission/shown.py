"""How webhooks see what is written, and how what they make of it gets back into the object. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Form:
    """How webhooks see what is written, where that is not the object itself."""

    show: Callable[[Object], Object]
    take: Callable[[Object, Object], Object]
    """(the object, what a webhook has made of its form) -> the object."""
    typed: bool = True
    """Of the kind of the resource, and so to be pruned and defaulted by its schema."""


def _taken(obj: Object, patched: Object) -> Object:
    """Who owns which field is not for a webhook to say."""
    owners = obj["metadata"].get("managedFields")
    patched["metadata"].pop("managedFields", None)
    if owners:
        patched["metadata"]["managedFields"] = owners
    return patched


WHOLE = Form(lambda obj: obj, _taken)
BODY = Form(lambda obj: obj, lambda obj, patched: patched, typed=False)
"""What is sent to a subresource that takes another kind: a Binding, an Eviction."""


def new_form(generated: bool) -> Form:
    """Of an object to be created: before any validation it has no uid, time, nor a name that was made up."""
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
