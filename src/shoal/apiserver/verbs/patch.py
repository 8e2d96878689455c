"""PATCH of every type: JSON, merge, strategic merge, apply."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import orjson

from shoal.apiserver.request.options import WriteOptions, check_apply_options, parse_write_options
from shoal.apiserver.response.negotiation import patch_type
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.apiserver.write.attempt import Build, WritePlan
from shoal.apiserver.write.body import check_decodable, check_type, prune_and_report
from shoal.apiserver.write.decode import raw_name
from shoal.apiserver.write.metadata import reset_fields_of
from shoal.apiserver.write.pipeline import write_planned
from shoal.apiserver.write.storage import conflict
from shoal.clock import rfc3339
from shoal.objects import jsonpatch, mergepatch, strategicpatch, strictjson, strictyaml
from shoal.objects.apply import apply
from shoal.objects.errors import (
    BadRequest,
    Invalid,
    forbidden_field,
    invalid_object,
    invalid_value,
)
from shoal.objects.wire import Response

Object = dict[str, Any]

_replace_field = re.compile(r"Go struct field \S+").sub


async def patch(server: ServerComponents, ctx: RequestContext) -> Response:
    return await write_planned(server, ctx, plan_patch)


def plan_patch(ctx: RequestContext, now: float) -> WritePlan:
    options = parse_write_options(ctx.query, "PatchOptions")
    patch_kind = patch_type(ctx.request.headers.get("content-type", ""), ctx.resource.custom)
    if patch_kind == "apply":
        return _plan_apply(ctx, options, now)
    if options.force is not None:
        cause = forbidden_field("force", "may not be specified for non-apply patch")
        raise invalid_object("PatchOptions", "meta.k8s.io", "", [cause])
    make = patch_function(patch_kind, ctx)
    duplicates = strictjson.duplicate_field_errors(ctx.request.body) if options.field_validation != "Ignore" else []
    if patch_kind == "json":
        duplicates = [f"json patch {said}" for said in duplicates]
    return WritePlan(options, _checked_build(ctx, options, patch_kind, make, duplicates))


def patch_function(patch_kind: str, ctx: RequestContext) -> Build:
    """Returns a function that applies this patch to whatever the object is by then."""
    body = _decode_patch(patch_kind, ctx.request.body)
    if patch_kind == "json":
        return lambda old: _require_object(jsonpatch.apply(old, body))
    if patch_kind == "merge":
        return lambda old: _require_object(mergepatch.apply(old, body))
    model = ctx.resource.kind_schema()
    # The result of a strategic patch may share structure with the live object, so it gets a copy.
    return lambda old: _require_object(
        strategicpatch.apply(orjson.loads(orjson.dumps(old)), body, model.schema, model.resolve)
    )


def _decode_patch(patch_kind: str, data: bytes) -> Any:
    """Decodes the patch. Errors have the wording of Go's decoder."""
    prefix = "" if patch_kind == "strategic" else "error decoding patch: "
    try:
        body = strictjson.loads(data)
    except BadRequest as error:
        raise BadRequest(prefix + error.message) from None
    expected_type = list if patch_kind == "json" else dict
    if body is None and patch_kind != "json":
        if patch_kind == "merge":
            raise BadRequest("Invalid JSON Patch")
        return {}
    if not isinstance(body, expected_type):
        kind = {dict: "object", list: "array", str: "string", bool: "bool"}.get(type(body), "number")
        into = "[]handlers.jsonPatchOp" if patch_kind == "json" else "map[string]interface {}"
        raise BadRequest(f"{prefix}json: cannot unmarshal {kind} into Go value of type {into}")
    return body


def _checked_build(
    ctx: RequestContext, options: WriteOptions, patch_kind: str, build: Build, duplicates: list[str]
) -> Build:
    def build_checked(old: Object) -> Object:
        new = build(old)
        if new is old:
            new = orjson.loads(orjson.dumps(old))
        if patch_kind == "strategic":
            # A strategic patch cannot change apiVersion and kind; its own values are ignored.
            new["apiVersion"], new["kind"] = old["apiVersion"], old["kind"]
        try:
            _check_patched_kind(ctx, new)
        except BadRequest as error:
            raise _invalid_patch(new, error.message) from None
        _check_name(ctx, new)
        ctx.warnings[:] = [ctx.resource.deprecation_warning] if ctx.resource.deprecation_warning else []
        try:
            prune_and_report(ctx, options, new, None, duplicates)
        except BadRequest as error:
            raise _invalid_patch(new, error.message) from None
        return new

    return build_checked


def _check_patched_kind(ctx: RequestContext, new: Object) -> None:
    resource = ctx.resource
    for field, expected in (("apiVersion", resource.api_version), ("kind", resource.kind)):
        if resource.custom and new.get(field) != expected:
            message = "must be set" if field not in new else f"must be {expected}"
            title, group = str(new.get("kind") or ""), str(new.get("apiVersion") or "").rpartition("/")[0]
            raise invalid_object(title, group, raw_name(new), [invalid_value(field, new.get(field) or "", message)])
    check_type(ctx, new)


def _check_name(ctx: RequestContext, new: Object) -> None:
    name = new["metadata"].get("name")
    if not name:
        raise BadRequest(f"the name of the object ({ctx.name} based on URL) was undeterminable: name must be provided")
    if name != ctx.name:
        raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({ctx.name})")


def _invalid_patch(new: Object, reason: str) -> Invalid:
    """The patch applies, but the result is not a valid object of its kind, so the patch is invalid, not the request."""
    reason = reason.partition(": ")[2] if " cannot be handled as a " in reason else reason
    patched = orjson.dumps(new).decode()
    return invalid_object("", "", "", [invalid_value("patch", patched, reason)])


def _require_object(value: object) -> Object:
    if not isinstance(value, dict):
        raise BadRequest("the patch did not produce an object")
    return value


def _check_duplicates(ctx: RequestContext, options: WriteOptions) -> None:
    """Duplicate keys of an apply patch. Its unknown fields are rejected in any case: they cannot be owned."""
    body = ctx.request.body
    if options.field_validation == "Ignore" or _is_clean_json(body):
        return
    duplicates = strictyaml.duplicate_key_errors(body)
    if duplicates and options.field_validation == "Strict":
        message = strictyaml.join_duplicate_errors(duplicates)
        raise BadRequest(f"error strict decoding YAML: error converting YAML to JSON: {message}")
    ctx.warnings.extend(duplicates)


def _is_clean_json(body: bytes) -> bool:
    try:
        return body[:1] == b"{" and not strictjson.duplicate_field_errors(body)
    except BadRequest:
        return False


def _decode_configuration(body: bytes) -> Any:
    """Decodes YAML. Nearly all of it is JSON, so the fast JSON parser is tried first."""
    if body[:1] == b"{":
        with suppress(BadRequest):
            return strictjson.loads(body)
    try:
        return strictyaml.loads(body) if body else {}
    except BadRequest as error:
        raise BadRequest(f"error decoding YAML: error converting YAML to JSON: {error.message}") from None


def _check_convertible(ctx: RequestContext, applied: Object) -> None:
    """Rejects what apply accepts because its schema is less strict than Go's types."""
    error = ctx.resource.kind_schema().decode_error(applied)
    if error:
        group = f"{ctx.resource.group}/" if ctx.resource.group else "/"
        kind = f"{group}{ctx.resource.version}, Kind={ctx.resource.kind}"
        who = f"{applied['metadata'].get('namespace', '')}/{applied['metadata'].get('name', '')}; {kind}"
        # Upstream converts one field at a time, so the message does not name the field.
        detail = _replace_field("Go value", error)
        reason = f"unable to convert unstructured object to {kind}: {detail}"
        raise BadRequest(f"failed to convert new object ({who}) to proper version: {reason}")


def _plan_apply(ctx: RequestContext, options: WriteOptions, now: float) -> WritePlan:
    check_apply_options(options)
    config = _decode_configuration(ctx.request.body)
    if not isinstance(config, dict):
        kind = {list: "array", str: "string", bool: "bool"}.get(type(config), "number")
        detail = f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        raise BadRequest(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {detail}")
    if (config.get("apiVersion"), config.get("kind")) != (ctx.resource.api_version, ctx.resource.kind):
        group, _, version = str(config.get("apiVersion") or "").rpartition("/")
        raise BadRequest(f"invalid object type: {group}/{version}, Kind={config.get('kind') or ''}")
    check_type(ctx, config)
    _check_name(ctx, config)
    if config["metadata"].get("managedFields"):
        raise BadRequest("metadata.managedFields must be nil")
    _check_duplicates(ctx, options)
    ctx.resource.kind_schema().check_applied_config(config, ctx.resource.kind)
    if ctx.resource.custom:
        check_decodable(ctx, config)

    def build(live: Object | None) -> Object:
        uid = config["metadata"].get("uid")
        if live is None and uid:
            raise conflict(
                ctx, f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            )
        applied = apply(
            live,
            orjson.loads(orjson.dumps(config)),
            manager=options.field_manager,
            api_version=ctx.resource.api_version,
            schema=ctx.resource.kind_schema().types,
            force=bool(options.force),
            now=rfc3339(now),
            subresource=ctx.info.subresource,
            reset=reset_fields_of(ctx),
            only_this_version=ctx.resource.strategy.drop_other_form_managers,
        )
        if not ctx.resource.custom:
            ctx.resource.kind_schema().prune(applied, collect=False)
            _check_convertible(ctx, applied)
        return applied

    return WritePlan(options, build, creates=not ctx.info.subresource, managed_fields_set=True)
