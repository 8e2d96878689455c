"""POST of a new object."""

from __future__ import annotations

from typing import Any

from shoal.apiserver.admission import admit, complete
from shoal.apiserver.admission.shown import new_form
from shoal.apiserver.admission.webhooks import Review, reviewed, write_body
from shoal.apiserver.core import Call, Core
from shoal.apiserver.encoding import encode
from shoal.apiserver.options import WriteOptions, write_options
from shoal.apiserver.render import one
from shoal.apiserver.turns import turn
from shoal.apiserver.writing import (
    begin,
    check_fields,
    check_type,
    converted_value,
    fill_in,
    key_of,
    own,
    place,
    read_body,
    settle,
    settle_converted,
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
        if not call.resource.custom:
            raise MethodNotSupported("the server does not allow this method on the requested resource")
        # A custom kind has one handler for all of its paths: the object's own name counts.
        call.target = call.target._replace(name="")
    options = write_options(call.query, "CreateOptions")
    obj = read_body(call.request, call.resource.kind)
    check_type(call, obj)
    if obj["metadata"].get("resourceVersion") not in (None, "", "0") and not options.dry_run:
        raise BadRequest("resourceVersion should not be set on objects to be created")
    check_fields(call, options, obj, call.request.body)
    return await create_object(core, call, options, obj, owned=False)


async def create_object(core: Core, call: Call, options: WriteOptions, obj: Object, owned: bool) -> Response:
    """Creates a decoded, pruned object. `managed_fields_set`: an apply patch has set managedFields already."""
    resource = call.resource
    generated = not obj["metadata"].get("name") and bool(obj["metadata"].get("generateName"))
    begin(core, call, obj)
    resource.model().default(obj)
    if resource.status and not resource.rules.status_on_create:
        obj.pop("status", None)
        if not resource.custom:
            # Go encodes an empty struct, and patches rely on the field.
            obj["status"] = {}
    fill_in(call, obj)
    if not owned:
        # Before the server adds its own fields, which have no owner.
        own(core, call, options, None, obj)
    resource.rules.prepare_create(obj)
    admit(core, call, obj, None)
    review = reviewed(core, call, "CREATE", options.dry_run)
    if review is not None:
        return await _reviewed(core, call, options, obj, generated, review)
    validate(call, obj, None)
    return await _finish(core, call, options, obj, generated)


async def _reviewed(
    core: Core, call: Call, options: WriteOptions, obj: Object, generated: bool, review: Review
) -> Response:
    """Creates the object after webhooks and policies."""

    def again(changed: Object) -> None:
        name = changed["metadata"].get("name")
        if call.name and name != call.name:
            raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({call.name})")
        place(call, changed["metadata"])
        call.resource.rules.prepare_create(changed)
        admit(core, call, changed, None)

    review.options = write_body(call, "CreateOptions")
    found = await review.mutate(obj, None, again, new_form(generated))
    assert found is not None
    validate(call, found, None)
    await review.approve(found, None)
    async with turn(core, call):
        # Checked again: state may have changed while webhooks were called.
        admit(core, call, found, None)
        return await _finish(
            core, call, options, found, generated and found["metadata"]["name"] == obj["metadata"]["name"]
        )


async def _finish(core: Core, call: Call, options: WriteOptions, obj: Object, generated: bool) -> Response:
    complete(core, call, obj)
    call.resource.rules.complete(obj)
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
    converts = call.resource.conversion is not None
    value = await converted_value(core, call, obj) if converts else stored_value(call, obj)
    hidden = call.kind.removed.get(call.target.cluster, {}).get(f"{call.namespace}/{name}", 0)
    try:
        revision = await core.store.put(key_of(call, name), value, hidden)
    except CompareFailed:
        # The other object may still be on its way to the cache. A client that gets AlreadyExists must be able to read
        # it.
        await core.store.settled()
        raise _exists(call, name) from None
    data = (
        await settle_converted(core, call, revision, value, name) if converts else settle(call, revision, value, name)
    )
    return one(call.resource, call.view, data, core.clock.now(), 201)


def _exists(call: Call, name: str) -> AlreadyExists:
    resource = call.resource
    entry = call.kind.get(call.target.cluster, call.namespace, name)
    going = entry is not None and "deletionTimestamp" in entry.object()["metadata"]
    said = f'{"object is being deleted: " if going else ""}{resource.group_resource} "{name}" already exists'
    return AlreadyExists(said, name=name, group=resource.group, kind=resource.plural)
