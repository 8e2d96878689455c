"""Converts objects of a CRD between versions by its conversion webhook.

A list is one call. The result is kept with the cached object, so an object is converted once per version and change,
however many clients read it. A webhook may change only labels and annotations of the metadata.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import uuid4

import orjson

from shoal.apiserver.cache import Entry
from shoal.apiserver.encoding import encode, splice
from shoal.apiserver.registry import Resource
from shoal.apiserver.webhooks.calling import CallFailed, Calls
from shoal.apiserver.webhooks.review import NotAnAnswer, check_type, check_uid
from shoal.kinds.webhooks import Conversion
from shoal.objects.errors import InternalError, StatusError
from shoal.objects.names import validate_annotations, validate_labels

Object = dict[str, Any]

GROUP = "apiextensions.k8s.io"
SECONDS = 30.0
"""The timeout of a request without one of its own. The shorter of the two applies."""
SAME = ("name", "namespace", "uid")
FREE = ("labels", "annotations")


class ConversionFailed(StatusError):
    """Upstream sends no reason on the wire, only the message."""

    def wire(self) -> Object:
        status = super().wire()
        del status["reason"]
        return status


class NotConverted(InternalError):
    """An object was read before it was converted."""


def is_other(resource: Resource, entry: Entry) -> bool:
    """Reports whether a webhook must convert the object before it can be served as that resource."""
    if entry.normal == resource.schema_hash or resource.schema_hash in (entry.converted or ()):
        return False
    return bool(entry.object().get("apiVersion") != resource.api_version)


async def prepare(calls: Calls, cluster: str, resource: Resource, entries: Iterable[Entry]) -> None:
    """Converts the objects and caches the results, so that they can be served as that resource."""
    if resource.conversion is None:
        return
    waiting = [entry for entry in entries if is_other(resource, entry)]
    if not waiting:
        return
    found = await convert(calls, cluster, resource, [entry.object() for entry in waiting])
    for entry, obj in zip(waiting, found, strict=True):
        resource.normalise(obj)
        shown = Entry(entry.namespace, entry.name, entry.revision, splice(encode(obj), entry.revision))
        shown.normal = resource.schema_hash
        entry.converted = {**(entry.converted or {}), resource.schema_hash: shown}


def shown(resource: Resource, entry: Entry) -> Entry:
    """The object as that resource: converted before, or already in that version."""
    if resource.conversion is None:
        return entry
    found = (entry.converted or {}).get(resource.schema_hash)
    if found is None and is_other(resource, entry):
        raise NotConverted(f"{resource.group_resource} {entry.key} is not converted to {resource.version}")
    return found or entry


async def convert(calls: Calls, cluster: str, resource: Resource, objects: list[Object]) -> list[Object]:
    """Returns the objects in the version of that resource, neither pruned nor defaulted."""
    conversion, wanted = resource.conversion, resource.api_version
    others = [obj for obj in objects if obj.get("apiVersion") != wanted]
    if conversion is None or not others:
        return [{**obj, "apiVersion": wanted} for obj in objects]
    title = f"{others[0].get('apiVersion', '')}, Kind={resource.kind}"
    try:
        made = iter(await _asked(calls, cluster, conversion, others, wanted))
        return [obj if obj.get("apiVersion") == wanted else _checked(obj, next(made), wanted) for obj in objects]
    except (CallFailed, NotAnAnswer) as error:
        failed = "failed: " if isinstance(error, CallFailed) else ""
        raise ConversionFailed(f"conversion webhook for {title} {failed}{error}") from None


async def _asked(
    calls: Calls, cluster: str, conversion: Conversion, objects: list[Object], wanted: str
) -> list[Object]:
    version = next((each for each in conversion.reviews if each in ("v1", "v1beta1")), "")
    if not version:
        raise CallFailed("no supported conversion review versions")
    uid = str(uuid4())
    request = {"uid": uid, "desiredAPIVersion": wanted, "objects": objects}
    body = {"kind": "ConversionReview", "apiVersion": f"{GROUP}/{version}", "request": request}
    review = await calls.ask(cluster, conversion.where, orjson.dumps(body), SECONDS)
    try:
        response = _response(review, version, uid)
    except NotAnAnswer as error:
        raise CallFailed(str(error)) from None
    found = response.get("result")
    result: Object = found if isinstance(found, dict) else {}
    if result.get("status") != "Success":
        why = result.get("message") or f"response.result.status was '{result.get('status', '')}', not 'Success'"
        raise CallFailed(str(why))
    made = response.get("convertedObjects")
    made = made if isinstance(made, list) else []
    if len(made) != len(objects):
        raise NotAnAnswer(f"returned {len(made)} objects, expected {len(objects)}")
    return made


def _response(review: Object, version: str, uid: str) -> Object:
    """v1beta1 was never strict."""
    if version == "v1":
        check_type(review, f"{GROUP}/v1", "ConversionReview")
    response = review.get("response")
    if not isinstance(response, dict):
        raise NotAnAnswer("no response provided")
    if version == "v1":
        check_uid(response, uid)
    return response


def _checked(before: Object, after: object, wanted: str) -> Object:
    """Messages are worded for one object: Kubernetes converts the objects of a list one by one."""
    if not isinstance(after, dict) or not isinstance(after.get("metadata"), dict):
        raise NotAnAnswer("returned invalid metadata: missing metadata in converted object")
    if after.get("apiVersion") != wanted:
        got = after.get("apiVersion", "")
        raise NotAnAnswer(
            f"returned invalid object at index 0: invalid groupVersion (expected {wanted}, received {got})"
        )
    if after.get("kind") != before.get("kind"):
        kinds = f"expected {before.get('kind')}, received {after.get('kind', '')}"
        raise NotAnAnswer(f"returned invalid object at index 0: invalid kind ({kinds})")
    old, new = before["metadata"], after["metadata"]
    for field in SAME:
        if (old.get(field) or "") != (new.get(field) or ""):
            title = "UID" if field == "uid" else field
            different = f"{old.get(field) or ''} != {new.get(field) or ''}"
            raise NotAnAnswer(f"returned invalid object: must have the same {title}: {different}")
    metadata = {key: value for key, value in old.items() if key not in FREE}
    for field in FREE:
        if new.get(field) is not None:
            metadata[field] = _texts(field, new[field], old.get(field))
    return {**after, "metadata": metadata}


def _texts(field: str, found: object, before: object) -> dict[str, str]:
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise NotAnAnswer(f"returned invalid metadata: metadata.{field} must be strings in the converted object")
    if found != before:
        wrong = validate_labels(found, "metadata.labels") if field == "labels" else validate_annotations(found)
        if wrong:
            raise NotAnAnswer(f"returned invalid metadata: {wrong[0].message}")
    return found
