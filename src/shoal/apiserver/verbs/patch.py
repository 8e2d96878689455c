"""PATCH of every type: JSON, merge, strategic merge, apply."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import orjson

from shoal.apiserver.core import Call, Core
from shoal.apiserver.negotiate import patch_type
from shoal.apiserver.options import WriteOptions, apply_options, write_options
from shoal.apiserver.verbs.create import create_object
from shoal.apiserver.verbs.update import Make, change
from shoal.apiserver.writing import check_fields, check_readable, check_type, conflict, ignored_fields
from shoal.clock import rfc3339
from shoal.objects import jsonpatch, mergepatch, strategic, strictjson, yaml_read
from shoal.objects.apply import apply
from shoal.objects.errors import AlreadyExists, BadRequest, forbidden_field, invalid_object
from shoal.objects.wire import Response

Object = dict[str, Any]


async def patch(core: Core, call: Call) -> Response:
    options = write_options(call.query, "PatchOptions")
    form = patch_type(call.request.headers.get("content-type", ""), call.resource.custom)
    if form == "apply":
        return await _apply(core, call, options)
    if options.force is not None:
        cause = forbidden_field("force", "may not be specified for non-apply patch")
        raise invalid_object("PatchOptions", "meta.k8s.io", "", [cause])
    make = patcher(form, call)
    twice = strictjson.duplicates(call.request.body) if options.field_validation != "Ignore" else []
    if form == "json":
        twice = [f"json patch {said}" for said in twice]
    return await change(core, call, options, _checked(call, options, make, twice))


def patcher(form: str, call: Call) -> Make:
    """The function that applies this patch, whatever the object is by then."""
    body = strictjson.loads(call.request.body)
    if form == "json":
        return lambda old: _an_object(jsonpatch.apply(old, body))
    if not isinstance(body, dict):
        raise BadRequest("error decoding patch: a patch of this type is a JSON object")
    if form == "merge":
        return lambda old: _an_object(mergepatch.apply(old, body))
    model = call.resource.model()
    # The strategic patch may share structure with the live object: it works on a copy.
    return lambda old: _an_object(strategic.apply(orjson.loads(orjson.dumps(old)), body, model.schema, model.resolve))


def _checked(call: Call, options: WriteOptions, make: Make, twice: list[str]) -> Make:
    def made(old: Object) -> Object:
        new = make(old)
        if new is old:
            new = orjson.loads(orjson.dumps(old))
        if not isinstance(new.get("metadata"), dict):
            raise BadRequest("metadata must be an object")
        check_type(call, new)
        name = new["metadata"].get("name")
        if name != call.name:
            raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({call.name})")
        call.warnings[:] = [call.resource.deprecated] if call.resource.deprecated else []
        check_fields(call, options, new, None, twice)
        return new

    return made


def _an_object(value: object) -> Object:
    if not isinstance(value, dict):
        raise BadRequest("the patch did not leave an object")
    return value


def _check_duplicates(call: Call, options: WriteOptions) -> None:
    """Of an apply patch. Its unknown fields are refused in any case: nobody could own them."""
    body = call.request.body
    if options.field_validation == "Ignore" or (body[:1] == b"{" and not strictjson.duplicates(body)):
        return
    for said in yaml_read.duplicates(body):
        if options.field_validation == "Strict":
            raise BadRequest(f"error strict decoding YAML: error converting YAML to JSON: {said}")
        call.warnings.append(f"error converting YAML to JSON: {said}")


async def _apply(core: Core, call: Call, options: WriteOptions) -> Response:
    apply_options(options)
    read = strictjson.loads if call.request.body[:1] == b"{" else yaml_read.loads
    config = read(call.request.body)
    if not isinstance(config, dict):
        raise BadRequest("error decoding YAML: an object was expected")
    check_type(call, config)
    name = config["metadata"].setdefault("name", call.name)
    if name != call.name:
        raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({call.name})")
    if config["metadata"].get("managedFields"):
        raise BadRequest("metadata.managedFields must be nil")
    _check_duplicates(call, options)
    call.resource.model().check_declared(config, call.resource.kind)
    if call.resource.custom:
        check_readable(call, config)

    def make(live: Object | None) -> Object:
        return apply(
            live,
            orjson.loads(orjson.dumps(config)),
            manager=options.field_manager,
            api_version=call.resource.api_version,
            schema=call.resource.model().types,
            force=bool(options.force),
            now=rfc3339(core.clock.now()),
            subresource=call.target.subresource,
            reset=ignored_fields(call),
        )

    if call.entry() is None:
        if call.target.subresource:
            raise call.not_found()
        if config["metadata"].get("uid"):
            uid = config["metadata"]["uid"]
            raise conflict(
                call, f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            )
        # When somebody is faster, theirs is what this is applied to.
        with suppress(AlreadyExists):
            return await create_object(core, call, options, make(None), owned=True)
    return await change(core, call, options, make, owned=True)
