"""POST of a new object."""

from __future__ import annotations

from typing import Any

from shoal.apiserver.admission.chain import admit, allocate
from shoal.apiserver.admission.dispatch import AdmissionDispatcher, dispatcher_for, options_body
from shoal.apiserver.admission.projection import creation_projection
from shoal.apiserver.cache.storage_form import encode
from shoal.apiserver.request.options import WriteOptions, parse_write_options
from shoal.apiserver.response.render import object_response
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.apiserver.write.locks import write_locks
from shoal.apiserver.write.pipeline import (
    apply_defaults,
    check_type,
    convert_and_encode_written,
    convert_for_storage,
    decode_body,
    encode_for_storage,
    encode_written,
    fill_metadata,
    prune_and_report,
    set_namespace,
    storage_key,
    update_managed_fields,
    validate,
)
from shoal.objects.errors import AlreadyExists, BadRequest, MethodNotSupported
from shoal.objects.wire import Response
from shoal.store.interface import CompareFailed

Object = dict[str, Any]

GENERATE_ATTEMPTS = 8


async def create(server: ServerComponents, ctx: RequestContext) -> Response:
    if ctx.name:
        if not ctx.resource.custom:
            raise MethodNotSupported("the server does not allow this method on the requested resource")
        # A custom kind has one handler for all of its paths: the object's own name counts.
        ctx.info = ctx.info._replace(name="")
    options = parse_write_options(ctx.query, "CreateOptions")
    obj = decode_body(ctx.request, ctx.resource.kind)
    check_type(ctx, obj)
    if obj["metadata"].get("resourceVersion") not in (None, "", "0") and not options.dry_run:
        raise BadRequest("resourceVersion should not be set on objects to be created")
    prune_and_report(ctx, options, obj, ctx.request.body)
    return await create_object(server, ctx, options, obj, managed_fields_set=False)


async def create_object(
    server: ServerComponents, ctx: RequestContext, options: WriteOptions, obj: Object, managed_fields_set: bool
) -> Response:
    """Creates a decoded, pruned object. `managed_fields_set`: an apply patch has set managedFields already."""
    resource = ctx.resource
    generated = not obj["metadata"].get("name") and bool(obj["metadata"].get("generateName"))
    fill_metadata(server, ctx, obj)
    resource.kind_schema().default(obj)
    if resource.status and not resource.strategy.status_on_create:
        obj.pop("status", None)
        if not resource.custom:
            # Go encodes an empty struct, and patches rely on the field.
            obj["status"] = {}
    apply_defaults(ctx, obj)
    if not managed_fields_set:
        # Before the server adds its own fields, which have no owner.
        update_managed_fields(server, ctx, options, None, obj)
    resource.strategy.prepare_for_create(obj)
    admit(server, ctx, obj, None)
    dispatcher = dispatcher_for(server, ctx, "CREATE", options.dry_run)
    if dispatcher is not None:
        return await _create_after_webhooks(server, ctx, options, obj, generated, dispatcher)
    validate(ctx, obj, None)
    return await _allocate_and_store(server, ctx, options, obj, generated)


async def _create_after_webhooks(
    server: ServerComponents,
    ctx: RequestContext,
    options: WriteOptions,
    obj: Object,
    generated: bool,
    dispatcher: AdmissionDispatcher,
) -> Response:
    """Creates the object after webhooks and policies."""

    def reinvoke(changed: Object) -> None:
        name = changed["metadata"].get("name")
        if ctx.name and name != ctx.name:
            raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({ctx.name})")
        set_namespace(ctx, changed["metadata"])
        ctx.resource.strategy.prepare_for_create(changed)
        admit(server, ctx, changed, None)

    dispatcher.options = options_body(ctx, "CreateOptions")
    admitted = await dispatcher.mutate(obj, None, reinvoke, creation_projection(generated))
    assert admitted is not None
    validate(ctx, admitted, None)
    await dispatcher.validate(admitted, None)
    async with write_locks(server, ctx):
        # Checked again: state may have changed while webhooks were called.
        admit(server, ctx, admitted, None)
        return await _allocate_and_store(
            server, ctx, options, admitted, generated and admitted["metadata"]["name"] == obj["metadata"]["name"]
        )


async def _allocate_and_store(
    server: ServerComponents, ctx: RequestContext, options: WriteOptions, obj: Object, generated: bool
) -> Response:
    allocate(server, ctx, obj)
    ctx.resource.strategy.canonicalize(obj)
    for attempt in range(GENERATE_ATTEMPTS):
        name = obj["metadata"]["name"]
        try:
            return await _store(server, ctx, options, obj, name)
        except AlreadyExists:
            if not generated or attempt == GENERATE_ATTEMPTS - 1:
                raise
            obj["metadata"]["name"] = obj["metadata"]["generateName"][:58] + server.name_generator.suffix()
    raise AssertionError("unreachable: the last attempt returns or raises")


async def _store(
    server: ServerComponents, ctx: RequestContext, options: WriteOptions, obj: Object, name: str
) -> Response:
    if ctx.resource_cache.get(ctx.info.cluster, ctx.namespace, name) is not None:
        raise _already_exists(ctx, name)
    if options.dry_run:
        return object_response(ctx.resource, ctx.output, encode(obj), server.clock.now(), 201)
    converts = ctx.resource.conversion is not None
    value = await convert_for_storage(server, ctx, obj) if converts else encode_for_storage(ctx, obj)
    tombstone_revision = ctx.resource_cache.tombstones.get(ctx.info.cluster, {}).get(f"{ctx.namespace}/{name}", 0)
    try:
        revision = await server.store.put(storage_key(ctx, name), value, tombstone_revision)
    except CompareFailed:
        # The other object may still be on its way to the cache. A client that gets AlreadyExists must be able to read
        # it.
        await server.store.flush()
        raise _already_exists(ctx, name) from None
    data = (
        await convert_and_encode_written(server, ctx, revision, value, name)
        if converts
        else encode_written(ctx, revision, value, name)
    )
    return object_response(ctx.resource, ctx.output, data, server.clock.now(), 201)


def _already_exists(ctx: RequestContext, name: str) -> AlreadyExists:
    resource = ctx.resource
    entry = ctx.resource_cache.get(ctx.info.cluster, ctx.namespace, name)
    deleting = entry is not None and "deletionTimestamp" in entry.object()["metadata"]
    message = f'{"object is being deleted: " if deleting else ""}{resource.group_resource} "{name}" already exists'
    return AlreadyExists(message, name=name, group=resource.group, kind=resource.plural)
