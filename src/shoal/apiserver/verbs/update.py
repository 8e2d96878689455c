"""PUT, and the guaranteed-update loop of every change: read, build, check, compare-and-swap."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from shoal.apiserver.admission.chain import admit
from shoal.apiserver.admission.dispatch import AdmissionDispatcher, dispatcher_for, options_body
from shoal.apiserver.admission.projection import WHOLE_OBJECT, Projection
from shoal.apiserver.cache.cacher import TOMBSTONE, CachedObject
from shoal.apiserver.cache.storage_form import encode, inject_revision
from shoal.apiserver.purge import purge
from shoal.apiserver.registry.clusters import LOGICAL_CLUSTERS
from shoal.apiserver.request.info import ROOT
from shoal.apiserver.request.options import WriteOptions, parse_write_options
from shoal.apiserver.response.render import encode_object, object_response, served_object
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.apiserver.verbs.create import create_object
from shoal.apiserver.webhooks.conversion import convert_entries
from shoal.apiserver.write.locks import write_locks
from shoal.apiserver.write.pipeline import (
    apply_defaults,
    check_type,
    conflict,
    convert_and_encode_written,
    convert_for_storage,
    decode_body,
    dedup_owner_references,
    encode_for_storage,
    encode_written,
    prune_and_report,
    set_namespace,
    storage_key,
    update_managed_fields,
    validate,
)
from shoal.objects.errors import AlreadyExists, BadRequest, invalid_object, invalid_value
from shoal.objects.names import validate_object_meta_update
from shoal.objects.wire import Response
from shoal.store.interface import CompareFailed

Object = dict[str, Any]
UpdateFunc = Callable[[Object], Object]
"""Builds the new object from the current one. Called again after a lost race."""

UPDATE_VERBS = ("update", "patch")
"""Verbs that webhooks get as an UPDATE. Other changes were already sent to them under their own kind."""
SERVER_METADATA = ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink")


async def update(server: ServerComponents, ctx: RequestContext) -> Response:
    options = parse_write_options(ctx.query, "UpdateOptions")
    body = decode_body(ctx.request, ctx.resource.kind)
    check_type(ctx, body)
    prune_and_report(ctx, options, body, ctx.request.body)
    name = body["metadata"].get("name")
    if not name:
        raise BadRequest("name must be provided")
    if name != ctx.name:
        raise BadRequest(f"the name of the object ({name}) does not match the name on the URL ({ctx.name})")
    strategy = ctx.resource.strategy
    unused_body, uid = [body], body["metadata"].get("uid")
    if ctx.cached_object() is None and strategy.allow_create_on_update and not ctx.info.subresource:
        if body["metadata"].get("resourceVersion"):
            raise ctx.not_found()
        # If another client creates it first, that object is updated.
        with suppress(AlreadyExists):
            return await create_object(server, ctx, options, unused_body.pop(), managed_fields_set=False)
    if not body["metadata"].get("resourceVersion") and not strategy.allow_unconditional_update:
        _check_uid(ctx, uid, ctx.require_object().object())
        cause = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
        raise invalid_object(ctx.resource.plural, ctx.resource.group, name, [cause])

    def build(old: Object) -> Object:
        """Returns the decoded body. After a lost race it is decoded again, because the first attempt modified it."""
        if unused_body:
            return unused_body.pop()
        body_again = decode_body(ctx.request, ctx.resource.kind)
        check_type(ctx, body_again)
        prune_and_report(ctx, WriteOptions(field_validation="Ignore"), body_again, None)
        return body_again

    return await guaranteed_update(server, ctx, options, build)


async def guaranteed_update(
    server: ServerComponents,
    ctx: RequestContext,
    options: WriteOptions,
    build: UpdateFunc,
    *,
    managed_fields_set: bool = False,
    projection: Projection = WHOLE_OBJECT,
) -> Response:
    """Runs one change. `managed_fields_set`: `build` sets managedFields itself (apply). `projection`: the object as
    webhooks see it.
    """
    while True:
        entry = ctx.require_object()
        if ctx.resource.conversion is not None:
            await convert_entries(server.webhooks.client, ctx.info.cluster, ctx.resource, [entry])
        old = served_object(ctx.resource, entry)
        new = build(old)
        _check_preconditions(ctx, entry, old, new)
        _keep_server_fields(ctx, new, old)
        prepare_late = ctx.info.subresource in ("", "status", "approval")
        if not prepare_late:
            _prepare_strategy(ctx, new, old)
        if not managed_fields_set:
            # Before the strategy changes it: a field belongs to the client that wrote it, even if its value is not
            # kept.
            update_managed_fields(server, ctx, options, old, new)
        if prepare_late:
            _prepare_strategy(ctx, new, old)
        _bump_generation(ctx, new, old)
        admit(server, ctx, new, old)
        dispatcher = dispatcher_for(server, ctx, "UPDATE", options.dry_run) if ctx.verb in UPDATE_VERBS else None
        if dispatcher is None:
            answer = await _compare_and_swap(server, ctx, options, entry, new, old)
        else:
            answer = await _update_after_webhooks(server, ctx, options, entry, new, old, dispatcher, projection)
        if answer is not None:
            return answer


async def _update_after_webhooks(
    server: ServerComponents,
    ctx: RequestContext,
    options: WriteOptions,
    entry: CachedObject,
    new: Object,
    old: Object,
    dispatcher: AdmissionDispatcher,
    projection: Projection,
) -> Response | None:
    """Runs the change after webhooks and policies."""
    # A patch shares unchanged parts between old and new object, so the old one may have been modified: read it again.
    before = served_object(ctx.resource, entry)

    def reinvoke(changed: Object) -> None:
        _keep_server_fields(ctx, changed, before)
        _prepare_strategy(ctx, changed, before)
        _bump_generation(ctx, changed, before)
        admit(server, ctx, changed, before)

    dispatcher.options = options_body(ctx, "UpdateOptions")
    admitted = await dispatcher.mutate(new, before, reinvoke, projection)
    assert admitted is not None
    old = old if admitted is new else before
    if admitted != old:
        _validate_update(ctx, admitted, old)
    await dispatcher.validate(admitted, before, projection)
    async with write_locks(server, ctx):
        # Checked again: state may have changed while webhooks were called.
        admit(server, ctx, admitted, old)
        return await _compare_and_swap(server, ctx, options, entry, admitted, old)


def _validate_update(ctx: RequestContext, new: Object, old: Object) -> None:
    validate(ctx, new, old, validate_object_meta_update(new["metadata"], old["metadata"]))


async def _compare_and_swap(
    server: ServerComponents, ctx: RequestContext, options: WriteOptions, entry: CachedObject, new: Object, old: Object
) -> Response | None:
    """Returns None after a lost race."""
    if new == old:
        return object_response(ctx.resource, ctx.output, encode_object(ctx.resource, entry), server.clock.now())
    _validate_update(ctx, new, old)
    if options.dry_run:
        return object_response(
            ctx.resource, ctx.output, inject_revision(encode(new), entry.revision), server.clock.now()
        )
    converts = ctx.resource.conversion is not None
    try:
        if _can_be_removed(new):
            await remove_object(server, ctx, entry)
            return object_response(
                ctx.resource, ctx.output, inject_revision(encode(new), entry.revision), server.clock.now()
            )
        value = await convert_for_storage(server, ctx, new) if converts else encode_for_storage(ctx, new)
        expected = 0 if entry.virtual else entry.revision
        revision = await server.store.put(storage_key(ctx, entry.name), value, expected)
    except CompareFailed:
        await server.store.flush()
        return None
    name = entry.name
    data = (
        await convert_and_encode_written(server, ctx, revision, value, name)
        if converts
        else encode_written(ctx, revision, value, name)
    )
    return object_response(ctx.resource, ctx.output, data, server.clock.now())


async def remove_object(server: ServerComponents, ctx: RequestContext, entry: CachedObject) -> int:
    """Removes the object from the store. A bootstrap object leaves a tombstone, or the shared one would reappear."""
    key, cluster = storage_key(ctx, entry.name), ctx.info.cluster
    if (ctx.resource.group, ctx.resource.plural) == LOGICAL_CLUSTERS and cluster == ROOT:
        await purge(server, entry.name)
    expected = 0 if entry.virtual else entry.revision
    if entry.virtual or ctx.resource_cache.is_bootstrap(cluster, entry.key):
        return await server.store.put(key, TOMBSTONE, expected)
    return await server.store.delete(key, expected)


def _check_preconditions(ctx: RequestContext, entry: CachedObject, old: Object, new: Object) -> None:
    metadata = new["metadata"]
    given = metadata.get("resourceVersion")
    if given and given != "0" and given != str(entry.revision):
        raise conflict(ctx)
    if ctx.verb == "update":
        _check_uid(ctx, metadata.get("uid"), old)


def _check_uid(ctx: RequestContext, given: str | None, old: Object) -> None:
    uid = old["metadata"]["uid"]
    if given and given != uid:
        raise conflict(ctx, f"Precondition failed: UID in precondition: {given}, UID in object meta: {uid}")


def _keep_server_fields(ctx: RequestContext, new: Object, old: Object) -> None:
    """Keeps the fields a client cannot change, whether they were sent or not."""
    before = old["metadata"]
    if new["metadata"] is before:
        # A patch that leaves metadata alone shares it with the old object, which must not be modified.
        new["metadata"] = dict(before)
    metadata = new["metadata"]
    set_namespace(ctx, metadata)
    dedup_owner_references(ctx, metadata)
    metadata.setdefault("uid", before["uid"])
    for field in SERVER_METADATA:
        if field in before:
            metadata[field] = before[field]
        elif not (field.startswith("deletion") and metadata.get(field) is not None):
            metadata.pop(field, None)  # a client-set deletionTimestamp stays, so that validation rejects it
    metadata["resourceVersion"] = before["resourceVersion"]
    resource = ctx.resource
    resource.kind_schema().default(new)
    apply_defaults(ctx, new)
    if ctx.info.subresource in ("status", "approval"):
        _keep_only_status(new, old, resource.strategy.status_writes_metadata)
        return
    if resource.status:
        if "status" in old:
            new["status"] = old["status"]
        else:
            new.pop("status", None)


def _prepare_strategy(ctx: RequestContext, new: Object, old: Object) -> None:
    if ctx.info.subresource in ("status", "approval"):
        ctx.resource.strategy.prepare_for_status_update(new, old)
    elif ctx.info.subresource != "finalize":
        ctx.resource.strategy.prepare_for_update(new, old)


def _keep_only_status(new: Object, old: Object, with_metadata: bool) -> None:
    """A write to /status changes only the status and its owners, and for some kinds metadata."""
    status, metadata = new.get("status"), new["metadata"]
    owners = metadata.get("managedFields")
    new.clear()
    new.update(old)
    new["metadata"] = metadata if with_metadata else dict(old["metadata"])
    new.pop("status", None)
    if status is not None:
        new["status"] = status
    if owners is not None:
        new["metadata"]["managedFields"] = owners


def _bump_generation(ctx: RequestContext, new: Object, old: Object) -> None:
    if not ctx.resource.strategy.tracks_generation:
        return
    apart = ("metadata", "status") if ctx.resource.status else ("metadata",)
    if any(new.get(key) != old.get(key) for key in new.keys() | old.keys() if key not in apart):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def _can_be_removed(obj: Object) -> bool:
    """An object marked for deletion is removed with its last finalizer, unless its grace period is still running."""
    metadata = obj["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds"):
        return False
    return not (obj["kind"] == "Namespace" and obj["apiVersion"] == "v1" and (obj.get("spec") or {}).get("finalizers"))
