"""POST of a new object."""

from __future__ import annotations

from typing import Any

from shoal.apiserver.admission import admit, complete
from shoal.apiserver.core import Call, Core
from shoal.apiserver.encoding import encode
from shoal.apiserver.options import WriteOptions, write_options
from shoal.apiserver.render import one
from shoal.apiserver.writing import (
    begin,
    check_fields,
    check_type,
    fill_in,
    key_of,
    own,
    read_body,
    settle,
    stored_value,
    validate,
)
from shoal.objects.errors import AlreadyExists, BadRequest, MethodNotSupported
from shoal.objects.wire import Response
from shoal.store.interface import CompareFailed

Object = dict[str, Any]

GENERATE_ATTEMPTS = 8


async def create(core: Core, call: Call) -> Response:
    if call.name:
        raise MethodNotSupported(
            f'create is not supported on resources of kind "{call.resource.group_resource}"',
            group=call.resource.group,
            kind=call.resource.plural,
        )
    options = write_options(call.query, "CreateOptions")
    obj = read_body(call.request, call.resource.kind)
    check_type(call, obj)
    if obj["metadata"].get("resourceVersion") not in (None, "", "0"):
        raise BadRequest("resourceVersion should not be set on objects to be created")
    check_fields(call, options, obj, call.request.body)
    return await create_object(core, call, options, obj, owned=False)


async def create_object(core: Core, call: Call, options: WriteOptions, obj: Object, owned: bool) -> Response:
    """From a decoded, pruned object on. `owned`: an apply patch has set managedFields already."""
    resource = call.resource
    generated = not obj["metadata"].get("name") and bool(obj["metadata"].get("generateName"))
    begin(core, call, obj)
    resource.model().default(obj)
    if resource.status and not resource.rules.status_on_create:
        obj.pop("status", None)
        if not resource.custom:
            # Go writes a struct even when it is empty, and patches build on its being there.
            obj["status"] = {}
    fill_in(call, obj)
    if not owned:
        # Before what the server adds of its own: that is nobody's.
        own(core, call, options, None, obj)
    resource.rules.prepare_create(obj)
    admit(core, call, obj, None)
    validate(call, obj, None)
    complete(core, call, obj)
    for attempt in range(GENERATE_ATTEMPTS):
        name = obj["metadata"]["name"]
        try:
            return await _store(core, call, options, obj, name)
        except AlreadyExists:
            if not generated or attempt == GENERATE_ATTEMPTS - 1:
                raise
            obj["metadata"]["name"] = obj["metadata"]["generateName"][:58] + core.dice.suffix()
    raise AssertionError("unreachable: the last attempt returns or raises")


async def _store(core: Core, call: Call, options: WriteOptions, obj: Object, name: str) -> Response:
    if call.kind.get(call.target.cluster, call.namespace, name) is not None:
        raise _exists(call, name)
    if options.dry_run:
        return one(call.resource, call.view, encode(obj), core.clock.now(), 201)
    value = stored_value(call, obj)
    hidden = call.kind.removed.get(call.target.cluster, {}).get(f"{call.namespace}/{name}", 0)
    try:
        revision = await core.store.put(key_of(call, name), value, hidden)
    except CompareFailed:
        # The other one may be on its way only: who is told that it exists must find it.
        await core.store.settled()
        raise _exists(call, name) from None
    data = settle(call, revision, value, name)
    return one(call.resource, call.view, data, core.clock.now(), 201)


def _exists(call: Call, name: str) -> AlreadyExists:
    resource = call.resource
    return AlreadyExists(
        f'{resource.group_resource} "{name}" already exists', name=name, group=resource.group, kind=resource.plural
    )
