"""LIST: pages at one constant revision, served from memory."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from shoal.apiserver.cache.cacher import CachedObject
from shoal.apiserver.request.info import WILDCARD
from shoal.apiserver.request.options import (
    EXACT,
    ListOptions,
    apply_continue_token,
    encode_continue,
    expired_continue,
    parse_list_options,
)
from shoal.apiserver.response.negotiation import PROTOBUF
from shoal.apiserver.response.render import full_list_response, list_response
from shoal.apiserver.selection import SelectionPredicate, selection_predicate
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.apiserver.verbs.node_leases import add_node_leases, may_include_node_leases
from shoal.apiserver.webhooks.conversion import converted_entry
from shoal.objects import digest
from shoal.objects.errors import BadRequest, Cause, Expired, TimedOut
from shoal.objects.wire import Response

DIGEST_PARAMETER = "digest"


def digest_response(client_digest: str, entries: Sequence[CachedObject], revision: int) -> Response:
    try:
        client_sums = digest.decode(client_digest)
    except ValueError as error:
        raise BadRequest(f"invalid {DIGEST_PARAMETER}: {error}") from None
    revisions = [(entry.key, entry.revision) for entry in entries]
    buckets = len(client_sums)
    differing = digest.differing_buckets(digest.bucket_sums(revisions, buckets), client_sums)
    differing_set = set(differing)
    items = {key: str(written) for key, written in revisions if digest.bucket_of(key, buckets) in differing_set}
    body = {
        "kind": "Digest",
        "apiVersion": "meta.shoal.dev/v1alpha1",
        "metadata": {"resourceVersion": str(revision)},
        "count": len(revisions),
        "buckets": differing,
        "items": items,
    }
    return Response(200, orjson.dumps(body))


Row = tuple[str, CachedObject]


def list_objects(server: ServerComponents, ctx: RequestContext) -> Response:
    options = parse_list_options(ctx.query, watching=False)
    predicate = selection_predicate(ctx.resource, options.label_selector, options.field_selector)
    revision, exact = list_revision(server, ctx, options)
    if DIGEST_PARAMETER in ctx.query:
        return _digest(server, ctx, predicate)
    include_object = ctx.query.get("includeObject", "")
    if ctx.info.cluster == WILDCARD:
        rows = _wildcard_rows(ctx, options, revision if exact else 0)
    else:
        kind, cluster = ctx.resource_cache, ctx.info.cluster
        table = kind.at_revision(cluster, revision) if exact else kind.table(cluster)
        plain = (
            predicate is None and not (options.limit or options.continue_key or exact) and ctx.output.mode == "object"
        )
        if plain and not may_include_node_leases(ctx):
            form = ctx.output.media_type if ctx.output.media_type == PROTOBUF else ""
            return full_list_response(ctx.resource, table, ctx.namespace, {"resourceVersion": str(revision)}, form)
        indexable = predicate is not None and ctx.resource.conversion is None
        entries_found = table.select(
            ctx.namespace, options.continue_key, predicate.trigger if predicate is not None and indexable else None
        )
        if may_include_node_leases(ctx):
            entries_found = add_node_leases(server, ctx, entries_found, options.continue_key)
        if predicate is None and not (0 < options.limit < len(entries_found)):
            return list_response(
                ctx.resource,
                ctx.output,
                entries_found,
                {"resourceVersion": str(revision)},
                server.clock.now(),
                include_object,
            )
        rows = [("", entry) for entry in entries_found]
    if predicate is not None:
        if ctx.resource.conversion is not None:
            rows = [(cluster, converted_entry(ctx.resource, entry)) for cluster, entry in rows]
        rows = [row for row in rows if predicate.matches(row[1])]
    rows, metadata = _page(rows, options, revision, counted=predicate is None)
    entries: list[Row] | list[CachedObject] = rows if ctx.info.cluster == WILDCARD else [entry for _, entry in rows]
    return list_response(ctx.resource, ctx.output, entries, metadata, server.clock.now(), include_object)


def _digest(server: ServerComponents, ctx: RequestContext, predicate: SelectionPredicate | None) -> Response:
    """Digest of the whole current state."""
    if ctx.info.cluster == WILDCARD:
        raise BadRequest(f"{DIGEST_PARAMETER} is not supported in the wildcard view")
    indexable = predicate is not None and ctx.resource.conversion is None
    candidates = ctx.resource_cache.table(ctx.info.cluster).select(
        ctx.namespace, "", predicate.trigger if predicate is not None and indexable else None
    )
    selected = [
        entry for entry in candidates if predicate is None or predicate.matches(converted_entry(ctx.resource, entry))
    ]
    return digest_response(ctx.query[DIGEST_PARAMETER], selected, server.cache.revision)


def _page(rows: list[Row], options: ListOptions, revision: int, counted: bool) -> tuple[list[Row], dict[str, object]]:
    metadata: dict[str, object] = {"resourceVersion": str(revision)}
    if 0 < options.limit < len(rows):
        cluster, last = rows[options.limit - 1]
        after = f"{cluster}\t{last.key}" if cluster else last.key
        metadata["continue"] = encode_continue(revision, after)
        if counted:
            metadata["remainingItemCount"] = len(rows) - options.limit
        rows = rows[: options.limit]
    return rows, metadata


def _wildcard_rows(ctx: RequestContext, options: ListOptions, revision: int) -> list[Row]:
    """Stored objects of all logical clusters. Unwritten bootstrap objects are left out."""
    first, _, after = options.continue_key.rpartition("\t")
    rows: list[Row] = []
    tables = ctx.resource_cache.stored_at_revision(revision) if revision else ctx.resource_cache.tables
    for cluster in sorted(tables):
        if cluster < first:
            continue
        for entry in tables[cluster].select(ctx.namespace, after if cluster == first else ""):
            if not entry.virtual:
                rows.append((cluster, entry))
    return rows


def list_revision(server: ServerComponents, ctx: RequestContext, options: ListOptions) -> tuple[int, bool]:
    """Returns the revision to list at, and whether exactly that one is required."""
    apply_continue_token(options)
    return _resolve_revision(server, options, max(server.cache.oldest_revision, ctx.cluster.oldest_revision))


def _resolve_revision(server: ServerComponents, options: ListOptions, oldest: int) -> tuple[int, bool]:
    current = server.cache.revision
    if options.continue_token:
        if options.continue_revision == -1:
            return current, False
        if options.continue_revision < oldest:
            raise expired_continue(options.continue_key)
        if options.continue_revision > current:
            raise revision_too_large(options.continue_revision, current)
        return options.continue_revision, True
    requested = options.revision
    if requested > current:
        raise revision_too_large(requested, current)
    if requested and (
        options.resource_version_match == EXACT or (options.limit > 0 and not options.resource_version_match)
    ):
        if requested < oldest:
            raise Expired("The resourceVersion for the provided list is too old.")
        return requested, True
    return current, False


def revision_too_large(requested: int, current: int) -> TimedOut:
    return TimedOut(
        f"Timeout: Too large resource version: {requested}, current: {current}",
        causes=[Cause("ResourceVersionTooLarge", "Too large resource version")],
        retry_after=1,
    )
