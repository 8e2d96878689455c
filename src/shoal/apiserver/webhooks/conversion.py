"""Converts objects of a CRD between versions by its conversion webhook.

A list is one call. The result is kept with the cached object, so an object is converted once per version and change,
however many clients read it. A webhook may change only labels and annotations of the metadata.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import uuid4

import orjson

from shoal.apiserver.cache.cacher import CachedObject
from shoal.apiserver.cache.storage_form import encode, inject_revision
from shoal.apiserver.registry.registry import Resource
from shoal.apiserver.webhooks.client import CallError, WebhookClient
from shoal.apiserver.webhooks.review import MAX_MESSAGE_LENGTH, InvalidResponse, check_type, check_uid
from shoal.kinds.admissionregistration.webhook_client import ConversionWebhook
from shoal.objects.errors import InternalError, StatusError
from shoal.objects.names import validate_annotations, validate_labels

Object = dict[str, Any]

GROUP = "apiextensions.k8s.io"
TIMEOUT_SECONDS = 30.0
"""The timeout of a request without one of its own. The shorter of the two applies."""
IMMUTABLE_METADATA = ("name", "namespace", "uid")
MUTABLE_METADATA = ("labels", "annotations")


class ConversionError(StatusError):
    """Upstream sends no reason on the wire, only the message."""

    def to_status(self) -> Object:
        status = super().to_status()
        del status["reason"]
        return status


class ConversionMissing(InternalError):
    """An object was read before it was converted."""


def needs_conversion(resource: Resource, entry: CachedObject) -> bool:
    """Reports whether a webhook must convert the object before it can be served as that resource."""
    if entry.normalised_for == resource.schema_hash or resource.schema_hash in (entry.conversions or ()):
        return False
    return bool(entry.object().get("apiVersion") != resource.api_version)


async def convert_entries(
    client: WebhookClient, cluster: str, resource: Resource, entries: Iterable[CachedObject]
) -> None:
    """Converts the objects and caches the results, so that they can be served as that resource."""
    if resource.conversion is None:
        return
    unconverted = [entry for entry in entries if needs_conversion(resource, entry)]
    if not unconverted:
        return
    converted = await convert_objects(client, cluster, resource, [entry.object() for entry in unconverted])
    for entry, obj in zip(unconverted, converted, strict=True):
        resource.normalise(obj)
        converted_object = CachedObject(
            entry.namespace, entry.name, entry.revision, inject_revision(encode(obj), entry.revision)
        )
        converted_object.normalised_for = resource.schema_hash
        entry.conversions = {**(entry.conversions or {}), resource.schema_hash: converted_object}


def converted_entry(resource: Resource, entry: CachedObject) -> CachedObject:
    """The object as that resource: converted before, or already in that version."""
    if resource.conversion is None:
        return entry
    converted = (entry.conversions or {}).get(resource.schema_hash)
    if converted is None and needs_conversion(resource, entry):
        raise ConversionMissing(f"{resource.group_resource} {entry.key} is not converted to {resource.version}")
    return converted or entry


async def convert_objects(
    client: WebhookClient, cluster: str, resource: Resource, objects: list[Object]
) -> list[Object]:
    """Returns the objects in the version of that resource, neither pruned nor defaulted."""
    conversion, desired_version = resource.conversion, resource.api_version
    others = [obj for obj in objects if obj.get("apiVersion") != desired_version]
    if conversion is None or not others:
        return [{**obj, "apiVersion": desired_version} for obj in objects]
    title = f"{others[0].get('apiVersion', '')}, Kind={resource.kind}"
    try:
        converted = iter(await _call_webhook(client, cluster, conversion, others, desired_version))
        return [
            obj if obj.get("apiVersion") == desired_version else _check_converted(obj, next(converted), desired_version)
            for obj in objects
        ]
    except (CallError, InvalidResponse) as error:
        failed = "failed: " if isinstance(error, CallError) else ""
        raise ConversionError(f"conversion webhook for {title} {failed}{error}") from None


async def _call_webhook(
    client: WebhookClient, cluster: str, conversion: ConversionWebhook, objects: list[Object], desired_version: str
) -> list[Object]:
    version = next((each for each in conversion.review_versions if each in ("v1", "v1beta1")), "")
    if not version:
        raise CallError("no supported conversion review versions")
    uid = str(uuid4())
    request = {"uid": uid, "desiredAPIVersion": desired_version, "objects": objects}
    body = {"kind": "ConversionReview", "apiVersion": f"{GROUP}/{version}", "request": request}
    review = await client.call(cluster, conversion.client_config, orjson.dumps(body), TIMEOUT_SECONDS)
    try:
        response = _conversion_response(review, version, uid)
    except InvalidResponse as error:
        hidden = client.undisclosed_failure(cluster, conversion.client_config, TIMEOUT_SECONDS, str(error))
        raise CallError(hidden or str(error)) from None
    raw_result = response.get("result")
    result: Object = raw_result if isinstance(raw_result, dict) else {}
    if result.get("status") != "Success":
        reason = result.get("message") or f"response.result.status was '{result.get('status', '')}', not 'Success'"
        raise CallError(str(reason)[:MAX_MESSAGE_LENGTH])
    converted = response.get("convertedObjects")
    converted = converted if isinstance(converted, list) else []
    if len(converted) != len(objects):
        raise InvalidResponse(f"returned {len(converted)} objects, expected {len(objects)}")
    return converted


def _conversion_response(review: Object, version: str, uid: str) -> Object:
    """v1beta1 was never strict."""
    if version == "v1":
        check_type(review, f"{GROUP}/v1", "ConversionReview")
    response = review.get("response")
    if not isinstance(response, dict):
        raise InvalidResponse("no response provided")
    if version == "v1":
        check_uid(response, uid)
    return response


def _check_converted(before: Object, after: object, desired_version: str) -> Object:
    """Messages are worded for one object: Kubernetes converts the objects of a list one by one."""
    if not isinstance(after, dict) or not isinstance(after.get("metadata"), dict):
        raise InvalidResponse("returned invalid metadata: missing metadata in converted object")
    if after.get("apiVersion") != desired_version:
        got = after.get("apiVersion", "")
        raise InvalidResponse(
            f"returned invalid object at index 0: invalid groupVersion (expected {desired_version}, received {got})"
        )
    if after.get("kind") != before.get("kind"):
        kinds = f"expected {before.get('kind')}, received {after.get('kind', '')}"
        raise InvalidResponse(f"returned invalid object at index 0: invalid kind ({kinds})")
    old, new = before["metadata"], after["metadata"]
    for field in IMMUTABLE_METADATA:
        if (old.get(field) or "") != (new.get(field) or ""):
            title = "UID" if field == "uid" else field
            different = f"{old.get(field) or ''} != {new.get(field) or ''}"
            raise InvalidResponse(f"returned invalid object: must have the same {title}: {different}")
    metadata = {key: value for key, value in old.items() if key not in MUTABLE_METADATA}
    for field in MUTABLE_METADATA:
        if new.get(field) is not None:
            metadata[field] = _string_map(field, new[field], old.get(field))
    return {**after, "metadata": metadata}


def _string_map(field: str, given: object, before: object) -> dict[str, str]:
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise InvalidResponse(f"returned invalid metadata: metadata.{field} must be strings in the converted object")
    if given != before:
        causes = validate_labels(given, "metadata.labels") if field == "labels" else validate_annotations(given)
        if causes:
            raise InvalidResponse(f"returned invalid metadata: {causes[0].message}")
    return given
