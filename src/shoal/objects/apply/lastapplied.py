"""The last-applied annotation of client-side apply, for objects that move to server-side apply.

As upstream, only applies by the manager `kubectl` use it: other tools opt out by their manager name.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from shoal.objects.apply import fieldset
from shoal.objects.apply.compare import Object, applied_fields, compare
from shoal.objects.apply.fieldset import FieldSet
from shoal.objects.apply.merge import typed_errors
from shoal.objects.apply.typed import TypedNode
from shoal.objects.errors import BadRequest

KUBECTL_MANAGER: Final = "kubectl"
LAST_APPLIED_ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"
_MAX_ANNOTATIONS_BYTES = 256 * 1024


def last_applied_fields(live: Object, api_version: str, node: TypedNode) -> FieldSet:
    """Returns the fields the annotation claims and the live object still has with the claimed values."""
    text = _annotations(live).get(LAST_APPLIED_ANNOTATION)
    try:
        last = orjson.loads(text) if isinstance(text, str) else None
    except ValueError:
        return {}
    if type(last) is not dict or last.get("apiVersion") != api_version or typed_errors(last, node):
        return {}
    changed, removed = compare(last, live, node)
    claimed = applied_fields(last, node) or {}
    return fieldset.difference(fieldset.difference(claimed, changed or {}), removed or {})


def refresh_annotation(obj: Object, config: Object) -> Object:
    """Returns the object with its annotation, if it has one, updated to the applied configuration."""
    annotations = _annotations(obj)
    if not annotations.get(LAST_APPLIED_ANNOTATION):
        return obj
    text = _encode_config(config)
    if text == annotations[LAST_APPLIED_ANNOTATION]:
        return obj
    kept = {name: value for name, value in annotations.items() if name != LAST_APPLIED_ANNOTATION}
    size = sum(len(name) + len(str(value)) for name, value in kept.items())
    if size + len(LAST_APPLIED_ANNOTATION) + len(text) <= _MAX_ANNOTATIONS_BYTES:
        kept[LAST_APPLIED_ANNOTATION] = text
    return {**obj, "metadata": {**obj["metadata"], "annotations": kept}}


def _encode_config(config: Object) -> str:
    annotations = _annotations(config)
    if LAST_APPLIED_ANNOTATION in annotations:
        kept = {name: value for name, value in annotations.items() if name != LAST_APPLIED_ANNOTATION}
        config = {**config, "metadata": {**config["metadata"], "annotations": kept}}
    try:
        text = orjson.dumps(config, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError as error:
        raise BadRequest(f"failed to build last-applied annotation: {error}") from error
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026") + "\n"


def _annotations(obj: Object) -> dict[str, Any]:
    meta = obj.get("metadata")
    annotations = meta.get("annotations") if isinstance(meta, dict) else None
    return annotations if isinstance(annotations, dict) else {}
