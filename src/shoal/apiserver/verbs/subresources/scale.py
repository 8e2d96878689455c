"""The scale subresource: an autoscaling/v1 Scale mapped to the paths the kind defines."""

from __future__ import annotations

from functools import partial
from typing import Any

import orjson

from shoal.apiserver.admission.projection import Projection
from shoal.apiserver.cache.storage_form import decode
from shoal.apiserver.request.options import WriteOptions, check_apply_options, parse_write_options
from shoal.apiserver.response.negotiation import patch_type, reject_transform
from shoal.apiserver.response.render import served_object
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.apiserver.write.attempt import Build
from shoal.apiserver.write.body import check_small, decode_small_body, object_field
from shoal.apiserver.write.pipeline import write_object
from shoal.clock import rfc3339
from shoal.kinds.strategy import ScalePaths
from shoal.objects import jsonpatch, mergepatch, strategicpatch, strictjson, strictyaml
from shoal.objects.apply import apply
from shoal.objects.errors import BadRequest, Invalid, UnsupportedMedia, invalid_object, invalid_value
from shoal.objects.jsonpath import get_path, set_path
from shoal.objects.selectors import from_label_selector
from shoal.objects.wire import Response

Object = dict[str, Any]


def get_scale(server: ServerComponents, ctx: RequestContext) -> Response:
    reject_transform(ctx.output)
    return Response(200, orjson.dumps(_scale_of(ctx, served_object(ctx.resource, ctx.require_object()))))


async def update_scale(server: ServerComponents, ctx: RequestContext) -> Response:
    body = decode_small_body(ctx.request, "Scale")
    if body.get("kind") not in (None, "", "Scale"):
        raise BadRequest(f'{body.get("kind")} in version "{body.get("apiVersion")}" cannot be handled as a Scale')
    name = object_field(body, "metadata").get("name") or ctx.name
    if name != ctx.name:
        raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({ctx.name})")
    return await _write_scale(server, ctx, "UpdateOptions", lambda scale: body)


async def patch_scale(server: ServerComponents, ctx: RequestContext) -> Response:
    patch_kind = patch_type(ctx.request.headers.get("content-type", ""), ctx.resource.custom)
    if patch_kind == "apply":
        return await _apply(server, ctx)
    check_small(ctx.request)
    body = strictjson.loads(ctx.request.body)
    return await _write_scale(server, ctx, "PatchOptions", lambda old: _apply_patch(patch_kind, old, body))


def _apply_patch(patch_kind: str, scale: Object, body: Any) -> Any:
    if patch_kind == "json":
        return jsonpatch.apply(scale, body)
    if patch_kind == "merge":
        return mergepatch.apply(scale, body)
    # A Scale has no mergeable list, so no schema is needed.
    return strategicpatch.apply(scale, body, {}, lambda name: {})


async def _write_scale(server: ServerComponents, ctx: RequestContext, options_kind: str, build: Build) -> Response:
    options = parse_write_options(ctx.query, options_kind)
    paths = _scale_paths(ctx)

    def build_scaled(old: Object) -> Object:
        scale = build(_scale_of(ctx, old))
        if not isinstance(scale, dict):
            raise BadRequest("the patch did not produce an object")
        replicas = _replicas(ctx, scale)
        new: Object = set_path(orjson.loads(orjson.dumps(old)), paths.spec, replicas)
        metadata = object_field(scale, "metadata")
        for field in ("resourceVersion", "uid"):
            if metadata.get(field):
                new["metadata"][field] = metadata[field]
        return new

    return await _update_scaled_object(server, ctx, options, build_scaled)


async def _apply(server: ServerComponents, ctx: RequestContext) -> Response:
    """Applies only the replicas field of the object. Its manager owns it through this subresource."""
    if ctx.resource.custom:
        raise UnsupportedMedia("a Scale cannot be applied to a custom kind; apply the object itself")
    options = parse_write_options(ctx.query, "PatchOptions")
    check_apply_options(options)
    check_small(ctx.request)
    body = ctx.request.body
    scale = strictjson.loads(body) if body[:1] == b"{" else strictyaml.loads(body)
    if not isinstance(scale, dict) or (scale.get("apiVersion"), scale.get("kind")) != ("autoscaling/v1", "Scale"):
        raise BadRequest("invalid object type: expected a Scale of autoscaling/v1")
    resource = ctx.resource
    config = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": ctx.name}}
    desired: Object = set_path(config, _scale_paths(ctx).spec, _replicas(ctx, scale))

    def build_applied(old: Object) -> Object:
        return apply(
            old,
            orjson.loads(orjson.dumps(desired)),
            manager=options.field_manager,
            api_version=resource.api_version,
            schema=resource.kind_schema().types,
            force=bool(options.force),
            now=rfc3339(server.clock.now()),
            subresource="scale",
        )

    return await _update_scaled_object(server, ctx, options, build_applied, owned=True)


async def _update_scaled_object(
    server: ServerComponents, ctx: RequestContext, options: WriteOptions, build: Build, *, owned: bool = False
) -> Response:
    paths = _scale_paths(ctx)

    def merge_scale(obj: Object, scale: Object) -> Object:
        scaled: Object = set_path(orjson.loads(orjson.dumps(obj)), paths.spec, _replicas(ctx, scale))
        return scaled

    plain = ctx.derive()
    # Fresh: what the write warns about is the scaled object, which the client has not sent.
    plain.warnings, plain.audit_annotations = [], None
    form = Projection(partial(_scale_of, ctx), merge_scale, typed=False)
    answer = await write_object(server, plain, options, build, managed_fields_set=owned, projection=form)
    assert isinstance(answer.body, bytes)
    return Response(answer.status, orjson.dumps(_scale_of(ctx, decode(answer.body))))


def _replicas(ctx: RequestContext, scale: Object) -> int:
    replicas = object_field(scale, "spec").get("replicas", 0)
    if isinstance(replicas, bool) or not isinstance(replicas, int) or not -(2**31) <= replicas < 2**31:
        raise BadRequest("json: cannot unmarshal into Go struct field ScaleSpec.spec.replicas of type int32")
    if replicas < 0:
        raise _invalid(ctx, replicas)
    return replicas


def _invalid(ctx: RequestContext, replicas: int) -> Invalid:
    message = "should be a non-negative integer" if ctx.resource.custom else "must be greater than or equal to 0"
    cause = invalid_value("spec.replicas", replicas, message)
    return invalid_object("Scale", "autoscaling", ctx.name, [cause])


def _scale_paths(ctx: RequestContext) -> ScalePaths:
    assert ctx.resource.scale is not None
    return ctx.resource.scale


def _scale_of(ctx: RequestContext, obj: Object) -> Object:
    paths, metadata = _scale_paths(ctx), obj["metadata"]
    metadata_fields = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Object = {"replicas": get_path(obj, paths.status) or 0}
    if paths.selector:
        selector = get_path(obj, paths.selector)
        if isinstance(selector, dict):
            # ReplicationController, the only scalable core kind, has plain labels as selector.
            selector = str(from_label_selector(selector if ctx.resource.group else {"matchLabels": selector}))
        if isinstance(selector, str) and selector:
            status["selector"] = selector
    spec: Object = {}
    replicas = get_path(obj, paths.spec)
    if replicas:
        spec["replicas"] = replicas
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in metadata_fields if key in metadata},
        "spec": spec,
        "status": status,
    }
