"""DELETE of one object and of a collection: finalizers first, then removal."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import repeat
from typing import Any

import orjson

from shoal.apiserver.admission.chain import admit_delete
from shoal.apiserver.admission.dispatch import dispatcher_for
from shoal.apiserver.cache.cacher import CachedObject
from shoal.apiserver.cache.storage_form import encode, inject_revision
from shoal.apiserver.request.options import (
    DeleteOptions,
    apply_continue_token,
    parse_delete_options,
    parse_list_options,
)
from shoal.apiserver.response.negotiation import wants_pretty
from shoal.apiserver.response.render import encode_object, list_slices, object_response, served_object
from shoal.apiserver.selection import matching_rows, selection_predicate
from shoal.apiserver.server import RequestContext, ServerComponents, slice_path
from shoal.apiserver.webhooks.conversion import convert_entries
from shoal.apiserver.write.body import decode_small_body
from shoal.apiserver.write.decode import SCHEME_SUFFIX
from shoal.apiserver.write.storage import conflict, encode_for_storage, encode_written, remove_object, storage_key
from shoal.clock import rfc3339
from shoal.kinds.strategy import Strategy
from shoal.objects.duration import parse_time
from shoal.objects.errors import BadRequest, Conflict, NotFound
from shoal.objects.wire import Response
from shoal.store.interface import CompareFailed

MAX_GRACE_SECONDS = 10**10
"""About three centuries: the longest period that can still be added to a date."""


NO_GRACE_KINDS = {"Namespace": "v1", "CustomResourceDefinition": "apiextensions.k8s.io/v1"}
"""Kinds whose content is deleted first. Their own deletion is a plain update."""


def before_delete(strategy: Strategy, obj: Object, requested: int | None, now: float) -> bool:
    """Marks the object, or shortens its remaining grace period. Returns False if nothing changed."""
    metadata = obj["metadata"]
    if "deletionTimestamp" in metadata:
        return _shorten_grace(metadata, requested, now)
    seconds = (
        min(strategy.check_graceful_delete(obj, requested), MAX_GRACE_SECONDS)
        if strategy.check_graceful_delete is not None
        else 0
    )
    metadata["deletionTimestamp"] = rfc3339(now + seconds)
    if obj["kind"] in NO_GRACE_KINDS and NO_GRACE_KINDS[obj["kind"]] == obj["apiVersion"]:
        return True
    metadata["deletionGracePeriodSeconds"] = seconds
    if metadata.get("generation"):
        metadata["generation"] += 1
    return True


def _shorten_grace(metadata: Object, requested: int | None, now: float) -> bool:
    left = metadata.get("deletionGracePeriodSeconds") or 0
    if requested is None or not left:
        return False
    seconds = requested if requested >= 0 else 1
    if seconds >= left:
        return False
    end = (parse_time(metadata["deletionTimestamp"]) or now) - left + seconds
    if end < now:
        # The period is over, but a nonzero request still leaves a second for a clean end.
        end, seconds = now, min(seconds, 1)
    metadata["deletionTimestamp"] = rfc3339(end)
    metadata["deletionGracePeriodSeconds"] = seconds
    return True


Object = dict[str, Any]

DELETE_VERBS = ("delete", "deletecollection")
"""Verbs that webhooks and policies get as a DELETE. An eviction was already sent to them as a CREATE of its own
kind.
"""
BATCH_SIZE = 256
"""Concurrent deletions of a collection: enough for full group commits, no more memory than that."""
PROPAGATION_FINALIZERS = {"Orphan": ["orphan"], "Foreground": ["foregroundDeletion"]}
GC_FINALIZERS = frozenset({"orphan", "foregroundDeletion"})
"""Finalizers the garbage collector removes. Background deletion, the default, sets none."""
NEVER_OWNERS = (("", "events"), ("events.k8s.io", "events"))
ORPHAN_BY_DEFAULT = (("", "replicationcontrollers"), ("batch", "jobs"))
"""Kinds older than propagation policies: without a policy their dependents are orphaned."""


async def delete(server: ServerComponents, ctx: RequestContext) -> Response:
    options = _delete_options(ctx)
    entry = ctx.require_object()
    updated = await delete_object(server, ctx, entry, options)
    if updated is None and ctx.resource.strategy.return_deleted_object:
        updated = encode_object(ctx.resource, entry)
    if updated is not None:
        return object_response(ctx.resource, ctx.output, updated, server.clock.now())
    uid = entry.object()["metadata"]["uid"]
    details = {"name": entry.name, "kind": ctx.resource.plural, "uid": uid}
    if ctx.resource.group:
        details["group"] = ctx.resource.group
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    return Response(200, orjson.dumps(status))


async def deletecollection(server: ServerComponents, ctx: RequestContext) -> Response:
    options = _delete_options(ctx)
    list_opts = parse_list_options(ctx.query, watching=False)
    predicate = selection_predicate(ctx.resource, list_opts.label_selector, list_opts.field_selector)
    apply_continue_token(list_opts)
    entries = ctx.resource_cache.table(ctx.info.cluster).select(ctx.namespace, list_opts.continue_key)
    limit = list_opts.limit if list_opts.limit > 0 else len(entries)
    if predicate is None:
        entries = entries[:limit]
    # Selectors apply to the object in the requested version.
    await convert_entries(server.webhooks.client, ctx.info.cluster, ctx.resource, entries)
    if predicate is not None:
        rows = matching_rows(ctx.resource, zip(repeat(""), entries), predicate)
        entries = [entry for _, entry in await server.slices.complete(slice_path(ctx), rows)][:limit]
    for start in range(0, len(entries), BATCH_SIZE):
        batch = entries[start : start + BATCH_SIZE]
        await asyncio.gather(*(_delete_collection_item(server, ctx, entry, options) for entry in batch))
    metadata: Object = {"resourceVersion": str(server.cache.revision)}
    ctx.is_rendered = True
    include_object, pretty = ctx.query.get("includeObject", ""), not ctx.media_type and wants_pretty(ctx.request)
    deleted, now = zip(repeat(""), entries), server.clock.now()
    return await server.slices.complete(
        slice_path(ctx), list_slices(ctx.resource, ctx.output, deleted, metadata, now, include_object, pretty)
    )


async def _delete_collection_item(
    server: ServerComponents, ctx: RequestContext, entry: CachedObject, options: DeleteOptions
) -> None:
    info = ctx.info._replace(namespace=entry.namespace, name=entry.name)
    item_ctx = ctx.derive(info=info)
    with suppress(NotFound):  # already deleted by another client
        await delete_object(server, item_ctx, entry, options)


def _delete_options(ctx: RequestContext) -> DeleteOptions:
    body: Object | None = None
    if ctx.request.body:
        body = decode_small_body(ctx.request, "")
        kind, version = body.get("kind"), body.get("apiVersion") or "v1"
        if kind not in (None, "", "DeleteOptions"):
            raise BadRequest(f'no kind "{kind}" is registered for version "{version}" {SCHEME_SUFFIX}')
    options = parse_delete_options(ctx.query, body)
    if not options.propagation_policy and (ctx.resource.group, ctx.resource.plural) == ("batch", "jobs"):
        ctx.warnings.append(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove "
            "them or set propagationPolicy=Orphan to suppress this warning"
        )
    return options


async def delete_object(
    server: ServerComponents, ctx: RequestContext, entry: CachedObject, options: DeleteOptions
) -> bytes | None:
    """Returns the served bytes of an object that is still pending deletion, or that supports graceful deletion; None if
    it was removed.
    """
    while True:
        if ctx.resource.conversion is not None:
            await convert_entries(server.webhooks.client, ctx.info.cluster, ctx.resource, [entry])
        new = served_object(ctx.resource, entry)
        _check_preconditions(ctx, entry, new, options)
        admit_delete(server, ctx, new)
        dispatcher = dispatcher_for(server, ctx, "DELETE", options.dry_run) if ctx.verb in DELETE_VERBS else None
        if dispatcher is not None:
            dispatcher.options = _options_body(options)
            await dispatcher.mutate(None, new, _no_reinvocation)
            await dispatcher.validate(None, new)
        finalizers = list(new["metadata"].get("finalizers") or ())
        ctx.resource.strategy.prepare_for_delete(new, rfc3339(server.clock.now()))
        set_propagation_finalizer(new, options.propagation_policy, (ctx.resource.group, ctx.resource.plural))
        started = before_delete(ctx.resource.strategy, new, options.grace_period_seconds, server.clock.now())
        if _is_pending(new):
            if not started and (new["metadata"].get("finalizers") or []) == finalizers:
                return encode_object(ctx.resource, entry)
            if options.dry_run:
                return inject_revision(encode(new), entry.revision)
            value = await encode_for_storage(server, ctx, new)
            try:
                revision = await server.store.put(
                    storage_key(ctx, entry.name), value, 0 if entry.virtual else entry.revision
                )
                return await encode_written(server, ctx, revision, value, entry.name)
            except CompareFailed:
                pass
        else:
            last = (
                inject_revision(encode(new), entry.revision)
                if ctx.resource.strategy.check_graceful_delete is not None
                else None
            )
            if options.dry_run:
                return last
            try:
                await remove_object(server, ctx, entry)
                return last
            except CompareFailed:
                pass
        await server.store.flush()
        entry = ctx.require_object()


def _options_body(options: DeleteOptions) -> Object:
    """DeleteOptions as webhooks see them."""
    body: Object = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
    preconditions = {"uid": options.uid, "resourceVersion": options.resource_version}
    fields = {
        "gracePeriodSeconds": options.grace_period_seconds,
        "preconditions": {key: value for key, value in preconditions.items() if value} or None,
        "propagationPolicy": options.propagation_policy or None,
        "dryRun": ["All"] if options.dry_run else None,
    }
    return body | {key: value for key, value in fields.items() if value is not None}


def _no_reinvocation(obj: Object) -> None:
    """A deletion has no object to mutate."""


def set_propagation_finalizer(obj: Object, policy: str, resource: tuple[str, str]) -> None:
    """Sets the finalizer of the propagation policy. A requested policy replaces existing finalizers."""
    metadata = obj["metadata"]
    before = metadata.get("finalizers") or []
    finalizers = PROPAGATION_FINALIZERS.get(policy) or ([f for f in before if f in GC_FINALIZERS] if not policy else [])
    if not policy and not finalizers and resource in ORPHAN_BY_DEFAULT:
        finalizers = PROPAGATION_FINALIZERS["Orphan"]
    if resource in NEVER_OWNERS:
        finalizers = []
    after = [f for f in before if f not in GC_FINALIZERS] + finalizers[:1]
    if set(after) != set(before):
        metadata["finalizers"] = after
        if not after:
            del metadata["finalizers"]


def _is_pending(obj: Object) -> bool:
    metadata = obj["metadata"]
    return bool(
        metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds") or _has_namespace_finalizers(obj)
    )


def _has_namespace_finalizers(obj: Object) -> bool:
    return obj["kind"] == "Namespace" and obj["apiVersion"] == "v1" and bool((obj.get("spec") or {}).get("finalizers"))


def _check_preconditions(ctx: RequestContext, entry: CachedObject, obj: Object, options: DeleteOptions) -> None:
    uid = obj["metadata"]["uid"]
    if _has_namespace_finalizers(obj):
        _check_namespace(ctx, entry, uid, options)
    if options.uid and options.uid != uid:
        raise _precondition_error(ctx, entry, f"the UID in the precondition ({options.uid}) does not "
                                              "match the UID in record "
                                   f"({uid}). The object might have been deleted and then recreated")  # fmt: skip
    if options.resource_version and options.resource_version != str(entry.revision):
        raise _precondition_error(
            ctx,
            entry,
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match the "
            f"ResourceVersion in record ({entry.revision}). The object might have been modified",
        )


def _check_namespace(ctx: RequestContext, entry: CachedObject, uid: str, options: DeleteOptions) -> None:
    """Namespaces are deleted by an update, so their preconditions have the wording of an update."""
    preconditions = (("UID", options.uid, uid), ("ResourceVersion", options.resource_version, str(entry.revision)))
    for field, expected, actual in preconditions:
        if expected and expected != actual:
            why = f"Precondition failed: {field} in precondition: {expected}, {field} in object meta: {actual}"
            raise conflict(ctx, why, entry.name)


def _precondition_error(ctx: RequestContext, entry: CachedObject, reason: str) -> Conflict:
    """Upstream names the kind, not the resource, when a deletion's precondition fails."""
    resource = ctx.resource
    group = resource.storage_group
    title = f"{resource.kind}.{group}" if group else resource.kind
    message = f'Operation cannot be fulfilled on {title} "{entry.name}": {reason}'
    return Conflict(message, name=entry.name, group=group, kind=resource.kind)
