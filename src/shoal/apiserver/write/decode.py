"""Checks that a body is an object of the expected apiVersion and kind. Errors are worded as upstream's.

Built-in kinds may omit both fields; custom ones may not.
"""

from __future__ import annotations

from typing import Any

from shoal.apiserver.registry.registry import Resource
from shoal.kinds.builtin_schemas import schema_name
from shoal.objects.errors import BadRequest, invalid_object, invalid_value

Object = dict[str, Any]

_TYPE_META = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
SCHEME_SUFFIX = 'in scheme "pkg/runtime/scheme.go:111"'
"""Upstream's name of the scheme its kinds are registered in, as in its messages."""
_JSON_TYPES = {list: "array", str: "string", bool: "bool"}


def not_decodable(body: bytes, kind: str, reason: str) -> BadRequest:
    """Shows the beginning of the body as upstream does: text for an object, else hex. Without a kind the message is the
    reason alone.
    """
    if not kind:
        return BadRequest(reason)
    excerpt = body[:30].decode(errors="replace") if body[:1] == b"{" else body[:30].hex() or "<empty>"
    more = " ..." if len(body) > 30 else ""
    return BadRequest(f"the object provided is unrecognized (must be of type {kind}): {reason} ({excerpt}{more})")


def json_parse_error(reason: str) -> str:
    return f"couldn't get version/kind; json parse error: {reason}"


def not_an_object_reason(value: object) -> str:
    """The decoding error for a value that is not an object."""
    return json_parse_error(
        f"json: cannot unmarshal {_JSON_TYPES.get(type(value), 'number')} into Go value of type {_TYPE_META}"
    )


def check_type_meta(obj: Object, body: bytes, kind: str) -> None:
    """Both fields must be strings, and apiVersion has at most a group and a version."""
    for field in ("apiVersion", "kind"):
        value = obj.get(field)
        if value is not None and not isinstance(value, str):
            json_type = "object" if isinstance(value, dict) else _JSON_TYPES.get(type(value), "number")
            reason = json_parse_error(
                f"json: cannot unmarshal {json_type} into Go struct field .{field} of type string"
            )
            raise not_decodable(body, kind, reason)
    if (obj.get("apiVersion") or "").count("/") > 1:
        raise not_decodable(body, kind, f"unexpected GroupVersion string: {obj['apiVersion']}")


def check_kind(resource: Resource, obj: Object, body: bytes | None, *, lenient: bool) -> None:
    """`body` is None if there is no text to show. `lenient` is set for fieldValidation=Ignore."""
    (_check_custom if resource.custom else _check_builtin)(resource, obj, body, lenient)
    obj["apiVersion"], obj["kind"] = resource.api_version, resource.kind


def raw_name(obj: Object) -> str:
    """The name of an unchecked object; empty if it has none."""
    metadata = obj.get("metadata")
    return str(metadata.get("name") or "") if isinstance(metadata, dict) else ""


def _check_custom(resource: Resource, obj: Object, body: bytes | None, lenient: bool) -> None:
    api_version, kind = obj.get("apiVersion") or "", obj.get("kind") or ""
    if not kind:
        missing = "Object 'Kind' is missing" + ("" if body is None else f" in '{body.decode(errors='replace')}'")
        if body is None or lenient:
            raise BadRequest(f"{_kind_mismatch_prefix(resource, resource.kind, resource.version)}: {missing}")
        raise not_decodable(body, resource.kind, missing)
    if api_version != resource.api_version:
        raise _version_mismatch(resource, api_version)
    if kind != resource.kind:
        raise invalid_object(
            str(kind), resource.group, raw_name(obj), [invalid_value("kind", kind, f"must be {resource.kind}")]
        )


def _check_builtin(resource: Resource, obj: Object, body: bytes | None, lenient: bool) -> None:
    api_version = str(obj.get("apiVersion") or resource.api_version)
    kind = str(obj.get("kind") or resource.kind)
    if kind == resource.kind and api_version == resource.api_version:
        return
    group, _, version = api_version.rpartition("/")
    title = _kind_mismatch_prefix(resource, kind, version)
    if not _is_registered_kind(group, version, kind):
        raise BadRequest(f'{title}: no kind "{kind}" is registered for version "{api_version}" {SCHEME_SUFFIX}')
    if kind != resource.kind:
        internal = resource.group.partition(".")[0] or "core"
        raise BadRequest(f"{title}: converting ({version}.{kind}) to ({internal}.{resource.kind}): unknown conversion")
    raise _version_mismatch(resource, api_version)


def _version_mismatch(resource: Resource, given: str) -> BadRequest:
    expected = resource.api_version
    return BadRequest(f"the API version in the data ({given}) does not match the expected API version ({expected})")


def _kind_mismatch_prefix(resource: Resource, kind: str, version: str) -> str:
    return f'{kind} in version "{version}" cannot be handled as a {resource.kind}'


def _is_registered_kind(group: str, version: str, kind: str) -> bool:
    if (group, version, kind) == ("", "v1", "List"):
        return True
    try:
        schema_name(group, version, kind)
    except KeyError:
        return False
    return True
