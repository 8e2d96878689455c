"""Decodes the body of a write and reports its unknown and duplicate fields as fieldValidation demands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shoal.apiserver.request.options import WriteOptions
from shoal.apiserver.response.negotiation import JSON, PROTOBUF, YAML, request_media_type
from shoal.apiserver.server import RequestContext
from shoal.apiserver.write.decode import (
    check_kind,
    check_type_meta,
    json_parse_error,
    not_an_object_reason,
    not_decodable,
)
from shoal.objects import strictjson, strictyaml
from shoal.objects.errors import BadRequest, TooLarge, invalid_object, invalid_value
from shoal.objects.metadata_types import unmarshal_error
from shoal.objects.protobuf import decode as decode_protobuf
from shoal.objects.wire import Request

Object = dict[str, Any]

MAX_SMALL_BODY_BYTES = 512 * 1024
MAX_SMALL_YAML_BYTES = 32 * 1024
"""What the event loop decodes within 100 ms."""


def decode_body(request: Request, kind: str = "object") -> Object:
    """Decodes the object of a body. `kind` is the expected kind, for the error."""
    media_type = request_media_type(request.headers.get("content-type", ""))
    if media_type == PROTOBUF:
        try:
            return decode_protobuf(request.body)[2]
        except BadRequest as error:
            raise not_decodable(request.body, kind, error.message) from None
    try:
        obj = strictyaml.loads(request.body) if media_type == YAML else strictjson.loads(request.body)
    except BadRequest as error:
        raise not_decodable(
            request.body, kind, error.message if media_type == YAML else json_parse_error(error.message)
        ) from None
    if obj is None:
        return {}
    if not isinstance(obj, dict):
        raise not_decodable(request.body, kind, not_an_object_reason(obj))
    check_type_meta(obj, request.body, kind)
    return obj


def decode_small_body(request: Request, kind: str = "object") -> Object:
    """As `decode_body`, for a body that is not stored as it is: options, reviews, bindings, scales."""
    check_small(request)
    return decode_body(request, kind)


def check_small(request: Request) -> None:
    is_yaml = "yaml" in request.headers.get("content-type", "") and request.body[:1] != b"{"
    limit = MAX_SMALL_YAML_BYTES if is_yaml else MAX_SMALL_BODY_BYTES
    if len(request.body) > limit:
        raise TooLarge(f"Request entity too large: limit is {limit}")


def object_field(obj: Object, field: str) -> Object:
    """A nested object of an object that no schema has checked. Absent is empty."""
    value = obj.get(field)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadRequest(f"json: cannot unmarshal the field {field}: an object was expected")
    return value


def check_type(ctx: RequestContext, obj: Object) -> None:
    """apiVersion and kind of the body must match the path. Built-in kinds may omit them."""
    resource = ctx.resource
    body = ctx.request.body if ctx.verb in ("create", "update") else None
    check_kind(resource, obj, body, lenient=ctx.query.get("fieldValidation") == "Ignore")
    metadata = obj.get("metadata")
    if metadata is None:
        obj["metadata"] = {}
    elif not isinstance(metadata, dict):
        json_type = {list: "array", str: "string", bool: "bool"}.get(type(metadata), "number")
        where = "value" if resource.custom else f"struct field {resource.kind}.metadata"
        title = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
        raise BadRequest(f"{title}: json: cannot unmarshal {json_type} into Go {where} of type v1.ObjectMeta")


def prune_and_report(
    ctx: RequestContext, options: WriteOptions, obj: Object, text: bytes | None, field_errors: Sequence[str] = ()
) -> None:
    """Prunes unknown fields and reports them, and duplicate keys of the text, as fieldValidation demands."""
    field_errors = list(field_errors)
    collect = options.field_validation != "Ignore"
    if collect and text is not None:
        field_errors += duplicate_keys(text, ctx.request.headers.get("content-type", ""), obj)
    kind_schema = ctx.resource.kind_schema()
    duplicate_count = len(field_errors)
    field_errors += kind_schema.prune(obj, collect=collect)
    if text is not None and 0 < duplicate_count < len(field_errors) and not ctx.resource.custom:
        # Upstream decodes built-in kinds in one pass and checks custom resources against their schema afterwards.
        field_errors = strictjson.sort_by_position(text, field_errors)
    if field_errors:
        report_field_errors(ctx, options, field_errors)
    check_decodable(ctx, obj)


def check_decodable(ctx: RequestContext, obj: Object) -> None:
    """Rejects objects that Go could not decode into their type, before any other check."""
    resource = ctx.resource
    error = unmarshal_error(obj["metadata"]) if resource.custom else resource.kind_schema().decode_error(obj)
    if error:
        kind = resource.kind
        raise BadRequest(f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {error}')


def duplicate_keys(text: bytes, content_type: str, obj: Object) -> list[str]:
    """Duplicate keys, in upstream's wording for the format of the text."""
    media_type = request_media_type(content_type)
    if media_type == YAML:
        return strictyaml.duplicate_key_errors(text)
    return strictjson.duplicate_field_errors(text, obj) if media_type == JSON else []


def report_field_errors(ctx: RequestContext, options: WriteOptions, field_errors: list[str]) -> None:
    if options.field_validation == "Strict" and ctx.verb == "patch":
        cause = invalid_value("patch", "", "strict decoding error: " + ", ".join(field_errors))
        raise invalid_object("", "", "", [cause])
    if options.field_validation == "Strict":
        title = (
            f"{ctx.resource.kind} in version {quote(ctx.resource.version)} cannot be handled as a {ctx.resource.kind}"
        )
        duplicate_lines = [message for message in field_errors if message.startswith("line ")]
        if duplicate_lines:
            field_errors = [strictyaml.join_duplicate_errors(duplicate_lines), *field_errors[len(duplicate_lines) :]]
        raise BadRequest(f"{title}: strict decoding error: " + ", ".join(field_errors))
    if options.field_validation == "Warn":
        ctx.warnings.extend(field_errors)


def quote(text: str) -> str:
    return f'"{text}"'
