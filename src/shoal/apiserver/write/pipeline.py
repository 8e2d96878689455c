"""The steps shared by all writes: body to object, metadata of a new object, the stored result.

Order of a write: decode, admit, validate, update managedFields, store. The verbs combine the steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from shoal.apiserver.cache.cacher import CachedObject, store_key
from shoal.apiserver.cache.storage_form import CLUSTER_ANNOTATION, encode, inject_revision
from shoal.apiserver.request.options import WriteOptions
from shoal.apiserver.response.negotiation import JSON, PROTOBUF, YAML, request_media_type
from shoal.apiserver.response.render import encode_object
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.apiserver.webhooks.conversion import convert_entries, convert_objects
from shoal.apiserver.write.decode import (
    check_kind,
    check_type_meta,
    json_parse_error,
    not_an_object_reason,
    not_decodable,
)
from shoal.clock import rfc3339
from shoal.kinds.validation.resource_list import QuantityError
from shoal.objects import strictjson, strictyaml
from shoal.objects.apply import managed_fields_on_update
from shoal.objects.errors import BadRequest, Cause, Conflict, invalid_object, invalid_value
from shoal.objects.metadata_types import unmarshal_error
from shoal.objects.names import validate_builtin_finalizers, validate_object_meta
from shoal.objects.protobuf import decode as decode_protobuf
from shoal.objects.wire import Request

Object = dict[str, Any]

MODIFIED_MESSAGE = "the object has been modified; please apply your changes to the latest version and try again"
SERVER_FIELDS = ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion", "generation")


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


def apply_defaults(ctx: RequestContext, obj: Object) -> None:
    """Applies the defaults of a built-in kind."""
    resource = ctx.resource
    try:
        resource.strategy.default(obj)
    except QuantityError as error:
        kind = resource.kind
        if ctx.verb == "patch":
            patched = encode(obj).decode()
            raise invalid_object("", "", "", [invalid_value("patch", patched, error.message)]) from None
        message = f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {error.message}'
        raise BadRequest(message) from None


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


def fill_metadata(server: ServerComponents, ctx: RequestContext, obj: Object) -> None:
    """Sets the metadata of a new object."""
    metadata = obj["metadata"]
    set_namespace(ctx, metadata)
    dedup_owner_references(ctx, metadata)
    if not metadata.get("name") and metadata.get("generateName"):
        prefix = metadata["generateName"]
        metadata["name"] = (
            str(prefix)[:58] + server.name_generator.suffix() if ctx.resource.strategy.generate_suffix else str(prefix)
        )
    for field in SERVER_FIELDS:
        metadata.pop(field, None)
    metadata["uid"] = server.name_generator.uid()
    metadata["creationTimestamp"] = rfc3339(server.clock.now())
    if ctx.resource.strategy.tracks_generation:
        metadata["generation"] = 1


def dedup_owner_references(ctx: RequestContext, metadata: Object) -> None:
    """Removes duplicate ownerReferences and adds a warning."""
    owners = metadata.get("ownerReferences")
    if not isinstance(owners, list) or len(owners) < 2:
        return
    distinct = [owner for index, owner in enumerate(owners) if owner not in owners[:index]]
    if len(distinct) < len(owners):
        duplicate_uids = dict.fromkeys(
            str(owner.get("uid")) for index, owner in enumerate(owners) if owner in owners[:index]
        )
        when = " after mutating admission happens" if ctx.verb == "patch" else ""
        ctx.warnings.append(
            f".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, "
            "and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
            + ", ".join(duplicate_uids)
        )
        metadata["ownerReferences"] = distinct


def set_namespace(ctx: RequestContext, metadata: Object) -> None:
    """Sets the namespace from the path and removes the cluster annotation of the wildcard view."""
    annotations = metadata.get("annotations")
    if annotations and CLUSTER_ANNOTATION in annotations:
        del annotations[CLUSTER_ANNOTATION]
        if not annotations:
            del metadata["annotations"]
    given = metadata.get("namespace") or ""
    if ctx.resource.namespaced:
        if given and given != ctx.namespace:
            raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
        metadata["namespace"] = ctx.namespace
    else:
        metadata.pop("namespace", None)


def validate(ctx: RequestContext, obj: Object, old: Object | None, more: list[Cause] | None = None) -> None:
    causes = list(more or ())
    strategy = ctx.resource.strategy
    if old is None:
        rule = strategy.name_rule if strategy.name_rule_for is None else strategy.name_rule_for(obj)
        namespaced = ctx.resource.namespaced
        causes += validate_object_meta(
            obj["metadata"], namespaced=namespaced, name_rule=rule, check_generate_name=strategy.validate_generate_name
        )
    if "finalizers" in obj["metadata"] and not (ctx.resource.custom or strategy.allow_unqualified_finalizers):
        causes += validate_builtin_finalizers(obj["metadata"]["finalizers"])
    status = ctx.info.subresource == "status"
    causes += ctx.resource.kind_schema().validate(obj, old, status=status, warnings=ctx.warnings)
    causes += strategy.validate(obj, old)
    if causes:
        name = obj["metadata"].get("name") or obj["metadata"].get("generateName") or ""
        raise invalid_object(ctx.resource.kind, ctx.resource.storage_group, name, causes)
    if not status:
        ctx.warnings.extend(strategy.warnings(obj, old))


def update_managed_fields(
    server: ServerComponents, ctx: RequestContext, options: WriteOptions, old: Object | None, new: Object
) -> None:
    """Updates managedFields after a create, update or patch."""
    without_nulls = new
    if old is not None and None in new.values():
        # A null is not owned: Go writes it for a field that was never set.
        without_nulls = {key: value for key, value in new.items() if value is not None or key in old}
    entries = managed_fields_on_update(
        old,
        without_nulls,
        manager=field_manager_of(ctx, options),
        api_version=ctx.resource.api_version,
        schema=ctx.resource.kind_schema().types,
        now=rfc3339(server.clock.now()),
        subresource=ctx.info.subresource,
        reset=reset_fields_of(ctx),
        only_this_version=ctx.resource.strategy.drop_other_form_managers,
    )
    if entries:
        new["metadata"]["managedFields"] = entries
    else:
        new["metadata"].pop("managedFields", None)


def reset_fields_of(ctx: RequestContext) -> Object | None:
    """Fields that a write to this endpoint does not write and therefore does not own."""
    subresource = ctx.info.subresource
    reset = (ctx.resource.strategy.reset_fields or {}).get(subresource)
    if reset is not None:
        return reset
    if subresource in ("status", "approval"):
        return {"f:spec": {}} if ctx.resource.strategy.status_writes_metadata else {"f:metadata": {}, "f:spec": {}}
    return {"f:status": {}} if ctx.resource.status else None


def field_manager_of(ctx: RequestContext, options: WriteOptions) -> str:
    if options.field_manager:
        return options.field_manager
    return _manager_from_user_agent(ctx.request.headers.get("user-agent", ""))


@lru_cache(maxsize=256)
def _manager_from_user_agent(agent: str) -> str:
    return "".join(c for c in agent.partition("/")[0] if c.isprintable())[:128] or "unknown"


def encode_written(ctx: RequestContext, revision: int, value: bytes, name: str) -> bytes:
    """Returns the served bytes of the object just written and marks it as normalised in the cache."""
    return encode_object(ctx.resource, _written_object(ctx, revision, value, name))


async def convert_and_encode_written(
    server: ServerComponents, ctx: RequestContext, revision: int, value: bytes, name: str
) -> bytes:
    """As `encode_written` for versions converted by a webhook: the response is what was stored, not what was sent."""
    entry = _written_object(ctx, revision, value, name)
    await convert_entries(server.webhooks.client, ctx.info.cluster, ctx.resource, [entry])
    return encode_object(ctx.resource, entry)


def _written_object(ctx: RequestContext, revision: int, value: bytes, name: str) -> CachedObject:
    entry: CachedObject | None = ctx.resource_cache.get(ctx.info.cluster, ctx.namespace, name)
    if entry is None or entry.revision != revision:
        entry = CachedObject(ctx.namespace, name, revision, inject_revision(value, revision))
    if ctx.resource.version == ctx.resource.storage_version:
        entry.normalised_for = ctx.resource.schema_hash
    return entry


def encode_for_storage(ctx: RequestContext, obj: Object) -> bytes:
    """Encodes the object in the storage version, whatever version it was sent in."""
    resource = ctx.resource
    if resource.custom and resource.version != resource.storage_version:
        obj = {**obj, "apiVersion": f"{resource.group}/{resource.storage_version}"}
    if resource.strategy.storage_alias is not None:
        obj = resource.strategy.storage_alias.to_stored(obj)
    return encode(obj)


async def convert_for_storage(server: ServerComponents, ctx: RequestContext, obj: Object) -> bytes:
    """As `encode_for_storage` for versions converted by a webhook."""
    resource = ctx.resource
    if resource.version == resource.storage_version:
        return encode(obj)
    storage = replace(resource, version=resource.storage_version)
    return encode((await convert_objects(server.webhooks.client, ctx.info.cluster, storage, [obj]))[0])


def storage_key(ctx: RequestContext, name: str) -> str:
    return store_key(ctx.resource_cache.key, ctx.info.cluster, ctx.namespace, name)


def conflict(ctx: RequestContext, reason: str = MODIFIED_MESSAGE, name: str = "") -> Conflict:
    name = name or ctx.name
    resource = ctx.resource
    return Conflict(
        f'Operation cannot be fulfilled on {resource.group_resource} "{name}": {reason}',
        name=name,
        group=resource.group,
        kind=resource.plural,
    )
