"""The scale subresource: an autoscaling/v1 Scale mapped to the paths the kind defines."""

from __future__ import annotations

from functools import partial
from typing import Any

import orjson

from shoal.apiserver.admission.shown import Form
from shoal.apiserver.core import Call, Core
from shoal.apiserver.encoding import decode
from shoal.apiserver.negotiate import no_transform, patch_type
from shoal.apiserver.options import WriteOptions, apply_options, write_options
from shoal.apiserver.registry import ScalePaths
from shoal.apiserver.render import served_object
from shoal.apiserver.verbs.update import Make, change
from shoal.apiserver.writing import member, read_body
from shoal.clock import rfc3339
from shoal.objects import jsonpatch, mergepatch, strategic, strictjson, yaml_read
from shoal.objects.apply import apply
from shoal.objects.errors import BadRequest, Invalid, UnsupportedMedia, invalid_object, invalid_value
from shoal.objects.jsonpath import get_path, set_path
from shoal.objects.selectors import from_label_selector
from shoal.objects.wire import Response

Object = dict[str, Any]


def get_scale(core: Core, call: Call) -> Response:
    no_transform(call.view)
    return Response(200, orjson.dumps(_scale(call, served_object(call.resource, call.found()))))


async def update_scale(core: Core, call: Call) -> Response:
    body = read_body(call.request, "Scale")
    if body.get("kind") not in (None, "", "Scale"):
        raise BadRequest(f'{body.get("kind")} in version "{body.get("apiVersion")}" cannot be handled as a Scale')
    name = member(body, "metadata").get("name") or call.name
    if name != call.name:
        raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({call.name})")
    return await _write(core, call, "UpdateOptions", lambda scale: body)


async def patch_scale(core: Core, call: Call) -> Response:
    form = patch_type(call.request.headers.get("content-type", ""), call.resource.custom)
    if form == "apply":
        return await _apply(core, call)
    body = strictjson.loads(call.request.body)
    return await _write(core, call, "PatchOptions", lambda old: _patched(form, old, body))


def _patched(form: str, scale: Object, body: Any) -> Any:
    if form == "json":
        return jsonpatch.apply(scale, body)
    if form == "merge":
        return mergepatch.apply(scale, body)
    # A Scale has no mergeable list, so no schema is needed.
    return strategic.apply(scale, body, {}, lambda name: {})


async def _write(core: Core, call: Call, options_kind: str, make: Make) -> Response:
    options = write_options(call.query, options_kind)
    paths = _paths(call)

    def changed(old: Object) -> Object:
        scale = make(_scale(call, old))
        if not isinstance(scale, dict):
            raise BadRequest("the patch did not leave an object")
        replicas = _replicas(call, scale)
        new: Object = set_path(orjson.loads(orjson.dumps(old)), paths.spec, replicas)
        metadata = member(scale, "metadata")
        for field in ("resourceVersion", "uid"):
            if metadata.get(field):
                new["metadata"][field] = metadata[field]
        return new

    return await _change(core, call, options, changed)


async def _apply(core: Core, call: Call) -> Response:
    """Applies only the replicas field of the object. Its manager owns it through this subresource."""
    if call.resource.custom:
        raise UnsupportedMedia("a Scale cannot be applied to a custom kind; apply the object itself")
    options = write_options(call.query, "PatchOptions")
    apply_options(options)
    body = call.request.body
    scale = strictjson.loads(body) if body[:1] == b"{" else yaml_read.loads(body)
    if not isinstance(scale, dict) or (scale.get("apiVersion"), scale.get("kind")) != ("autoscaling/v1", "Scale"):
        raise BadRequest("invalid object type: an autoscaling/v1 Scale is applied here")
    resource = call.resource
    config = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": call.name}}
    wanted: Object = set_path(config, _paths(call).spec, _replicas(call, scale))

    def changed(old: Object) -> Object:
        return apply(
            old,
            orjson.loads(orjson.dumps(wanted)),
            manager=options.field_manager,
            api_version=resource.api_version,
            schema=resource.model().types,
            force=bool(options.force),
            now=rfc3339(core.clock.now()),
            subresource="scale",
        )

    return await _change(core, call, options, changed, owned=True)


async def _change(core: Core, call: Call, options: WriteOptions, changed: Make, *, owned: bool = False) -> Response:
    paths = _paths(call)

    def taken(obj: Object, scale: Object) -> Object:
        found: Object = set_path(orjson.loads(orjson.dumps(obj)), paths.spec, _replicas(call, scale))
        return found

    plain = Call(
        call.request, call.target, call.verb, call.user, call.cluster, call.resource, call.kind, call.view, call.query
    )
    form = Form(partial(_scale, call), taken, typed=False)
    answer = await change(core, plain, options, changed, owned=owned, form=form)
    assert isinstance(answer.body, bytes)
    return Response(answer.status, orjson.dumps(_scale(call, decode(answer.body))))


def _replicas(call: Call, scale: Object) -> int:
    replicas = member(scale, "spec").get("replicas", 0)
    if isinstance(replicas, bool) or not isinstance(replicas, int) or not -(2**31) <= replicas < 2**31:
        raise BadRequest("json: cannot unmarshal into Go struct field ScaleSpec.spec.replicas of type int32")
    if replicas < 0:
        raise _invalid(call, replicas)
    return replicas


def _invalid(call: Call, replicas: int) -> Invalid:
    said = "should be a non-negative integer" if call.resource.custom else "must be greater than or equal to 0"
    cause = invalid_value("spec.replicas", replicas, said)
    return invalid_object("Scale", "autoscaling", call.name, [cause])


def _paths(call: Call) -> ScalePaths:
    assert call.resource.scale is not None
    return call.resource.scale


def _scale(call: Call, obj: Object) -> Object:
    paths, metadata = _paths(call), obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Object = {"replicas": get_path(obj, paths.status) or 0}
    if paths.selector:
        selector = get_path(obj, paths.selector)
        if isinstance(selector, dict):
            # ReplicationController, the only scalable core kind, has plain labels as selector.
            selector = str(from_label_selector(selector if call.resource.group else {"matchLabels": selector}))
        if isinstance(selector, str) and selector:
            status["selector"] = selector
    spec: Object = {}
    replicas = get_path(obj, paths.spec)
    if replicas:
        spec["replicas"] = replicas
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in kept if key in metadata},
        "spec": spec,
        "status": status,
    }
