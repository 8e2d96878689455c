"""PATCH of every type: JSON, merge, strategic merge, apply."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import orjson

from shoal.apiserver.core import Call, Core
from shoal.apiserver.negotiate import patch_type
from shoal.apiserver.options import WriteOptions, apply_options, write_options
from shoal.apiserver.recognizing import given_name
from shoal.apiserver.verbs.create import create_object
from shoal.apiserver.verbs.update import Make, change
from shoal.apiserver.writing import check_fields, check_readable, check_type, conflict, ignored_fields
from shoal.clock import rfc3339
from shoal.objects import jsonpatch, mergepatch, strategic, strictjson, yaml_read
from shoal.objects.apply import apply
from shoal.objects.errors import (
    AlreadyExists,
    BadRequest,
    Invalid,
    forbidden_field,
    invalid_object,
    invalid_value,
)
from shoal.objects.wire import Response

Object = dict[str, Any]

_FIELD = re.compile(r"Go struct field \S+")


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
    return await change(core, call, options, _checked(call, options, form, make, twice))


def patcher(form: str, call: Call) -> Make:
    """Returns a function that applies this patch to whatever the object is by then."""
    body = _read(form, call.request.body)
    if form == "json":
        return lambda old: _an_object(jsonpatch.apply(old, body))
    if form == "merge":
        return lambda old: _an_object(mergepatch.apply(old, body))
    model = call.resource.model()
    # The result of a strategic patch may share structure with the live object, so it gets a copy.
    return lambda old: _an_object(strategic.apply(orjson.loads(orjson.dumps(old)), body, model.schema, model.resolve))


def _read(form: str, data: bytes) -> Any:
    """Decodes the patch. Errors have the wording of Go's decoder."""
    prefix = "" if form == "strategic" else "error decoding patch: "
    try:
        body = strictjson.loads(data)
    except BadRequest as error:
        raise BadRequest(prefix + error.message) from None
    wanted = list if form == "json" else dict
    if body is None and form != "json":
        if form == "merge":
            raise BadRequest("Invalid JSON Patch")
        return {}
    if not isinstance(body, wanted):
        kind = {dict: "object", list: "array", str: "string", bool: "bool"}.get(type(body), "number")
        into = "[]handlers.jsonPatchOp" if form == "json" else "map[string]interface {}"
        raise BadRequest(f"{prefix}json: cannot unmarshal {kind} into Go value of type {into}")
    return body


def _checked(call: Call, options: WriteOptions, form: str, make: Make, twice: list[str]) -> Make:
    def made(old: Object) -> Object:
        new = make(old)
        if new is old:
            new = orjson.loads(orjson.dumps(old))
        if form == "strategic":
            # A strategic patch cannot change apiVersion and kind; its own values are ignored.
            new["apiVersion"], new["kind"] = old["apiVersion"], old["kind"]
        try:
            _check_kind(call, new)
        except BadRequest as error:
            raise _unreadable(new, error.message) from None
        _check_name(call, new)
        call.warnings[:] = [call.resource.deprecated] if call.resource.deprecated else []
        try:
            check_fields(call, options, new, None, twice)
        except BadRequest as error:
            raise _unreadable(new, error.message) from None
        return new

    return made


def _check_kind(call: Call, new: Object) -> None:
    resource = call.resource
    for field, expected in (("apiVersion", resource.api_version), ("kind", resource.kind)):
        if resource.custom and new.get(field) != expected:
            said = "must be set" if field not in new else f"must be {expected}"
            title, group = str(new.get("kind") or ""), str(new.get("apiVersion") or "").rpartition("/")[0]
            raise invalid_object(title, group, given_name(new), [invalid_value(field, new.get(field) or "", said)])
    check_type(call, new)


def _check_name(call: Call, new: Object) -> None:
    name = new["metadata"].get("name")
    if not name:
        raise BadRequest(f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided")
    if name != call.name:
        raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({call.name})")


def _unreadable(new: Object, why: str) -> Invalid:
    """The patch applies, but the result is not a valid object of its kind, so the patch is invalid, not the request."""
    why = why.partition(": ")[2] if " cannot be handled as a " in why else why
    shown = orjson.dumps(new).decode()
    return invalid_object("", "", "", [invalid_value("patch", shown, why)])


def _an_object(value: object) -> Object:
    if not isinstance(value, dict):
        raise BadRequest("the patch did not leave an object")
    return value


def _check_duplicates(call: Call, options: WriteOptions) -> None:
    """Duplicate keys of an apply patch. Its unknown fields are rejected in any case: they cannot be owned."""
    body = call.request.body
    if options.field_validation == "Ignore" or _is_clean_json(body):
        return
    twice = yaml_read.duplicates(body)
    if twice and options.field_validation == "Strict":
        said = yaml_read.together(twice)
        raise BadRequest(f"error strict decoding YAML: error converting YAML to JSON: {said}")
    call.warnings.extend(twice)


def _is_clean_json(body: bytes) -> bool:
    try:
        return body[:1] == b"{" and not strictjson.duplicates(body)
    except BadRequest:
        return False


def _configuration(body: bytes) -> Any:
    """Decodes YAML. Nearly all of it is JSON, so the fast JSON parser is tried first."""
    if body[:1] == b"{":
        with suppress(BadRequest):
            return strictjson.loads(body)
    try:
        return yaml_read.loads(body) if body else {}
    except BadRequest as error:
        raise BadRequest(f"error decoding YAML: error converting YAML to JSON: {error.message}") from None


def _check_convertible(call: Call, made: Object) -> None:
    """Rejects what apply accepts because its schema is less strict than Go's types."""
    problem = call.resource.model().decoding_problem(made)
    if problem:
        group = f"{call.resource.group}/" if call.resource.group else "/"
        kind = f"{group}{call.resource.version}, Kind={call.resource.kind}"
        who = f"{made['metadata'].get('namespace', '')}/{made['metadata'].get('name', '')}; {kind}"
        # Upstream converts one field at a time, so the message does not name the field.
        told = _FIELD.sub("Go value", problem)
        why = f"unable to convert unstructured object to {kind}: {told}"
        raise BadRequest(f"failed to convert new object ({who}) to proper version: {why}")


async def _apply(core: Core, call: Call, options: WriteOptions) -> Response:
    apply_options(options)
    config = _configuration(call.request.body)
    if not isinstance(config, dict):
        kind = {list: "array", str: "string", bool: "bool"}.get(type(config), "number")
        said = f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        raise BadRequest(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {said}")
    if (config.get("apiVersion"), config.get("kind")) != (call.resource.api_version, call.resource.kind):
        group, _, version = str(config.get("apiVersion") or "").rpartition("/")
        raise BadRequest(f"invalid object type: {group}/{version}, Kind={config.get('kind') or ''}")
    check_type(call, config)
    _check_name(call, config)
    if config["metadata"].get("managedFields"):
        raise BadRequest("metadata.managedFields must be nil")
    _check_duplicates(call, options)
    call.resource.model().check_declared(config, call.resource.kind)
    if call.resource.custom:
        check_readable(call, config)

    def make(live: Object | None) -> Object:
        made = apply(
            live,
            orjson.loads(orjson.dumps(config)),
            manager=options.field_manager,
            api_version=call.resource.api_version,
            schema=call.resource.model().types,
            force=bool(options.force),
            now=rfc3339(core.clock.now()),
            subresource=call.target.subresource,
            reset=ignored_fields(call),
            alone=call.resource.rules.alone,
        )
        if not call.resource.custom:
            call.resource.model().prune(made, collect=False)
            _check_convertible(call, made)
        return made

    if call.entry() is None:
        if call.target.subresource:
            raise call.not_found()
        if config["metadata"].get("uid"):
            uid = config["metadata"]["uid"]
            raise conflict(
                call, f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            )
        # If another client creates it first, the patch is applied to that object.
        with suppress(AlreadyExists):
            return await create_object(core, call, options, make(None), owned=True)
    return await change(core, call, options, make, owned=True)
