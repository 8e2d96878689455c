"""LIST: pages at one constant revision, served from memory.

A list takes a snapshot of the cache and encodes it in slices, so that a long one holds nobody else up.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Any

import orjson

from shoal.apiserver.cache.cacher import CachedObject, ObjectTable
from shoal.apiserver.cache.trigger import Trigger
from shoal.apiserver.flowcontrol.slices import Slices
from shoal.apiserver.request.info import WILDCARD
from shoal.apiserver.request.options import (
    EXACT,
    ListOptions,
    apply_continue_token,
    encode_continue,
    expired_continue,
    parse_list_options,
)
from shoal.apiserver.response.negotiation import YAML, wants_pretty
from shoal.apiserver.response.render import (
    SMALL_LIST,
    Row,
    full_list_slices,
    list_slices,
    small_list_response,
)
from shoal.apiserver.selection import SelectionPredicate, matching_rows, selection_predicate
from shoal.apiserver.server import RequestContext, ServerComponents, slice_path
from shoal.apiserver.verbs.node_leases import add_node_leases, leased_nodes
from shoal.apiserver.webhooks.conversion import converted_entry
from shoal.objects import digest
from shoal.objects.errors import BadRequest, Cause, Expired, TimedOut
from shoal.objects.wire import Response

Object = dict[str, Any]

DIGEST_PARAMETER = "digest"
SMALL_LIST_BYTES = 1024 * 1024


def list_objects(server: ServerComponents, ctx: RequestContext) -> Response | Awaitable[Response]:
    options = parse_list_options(ctx.query, watching=False)
    predicate = selection_predicate(ctx.resource, options.label_selector, options.field_selector)
    revision, exact = list_revision(server, ctx, options)
    if DIGEST_PARAMETER in ctx.query:
        return server.slices.run(slice_path(ctx), _digest_slices(server, ctx, predicate))
    pretty = not ctx.media_type and wants_pretty(ctx.request)
    if ctx.info.cluster == WILDCARD:
        snapshot = _wildcard_snapshot(ctx, options, revision if exact else 0)
    else:
        kind, cluster = ctx.resource_cache, ctx.info.cluster
        table = kind.at_revision(cluster, revision) if exact else kind.table(cluster)
        is_whole = predicate is None and not (options.limit or options.continue_key or exact)
        nodes = leased_nodes(server, ctx)
        if is_whole and ctx.output.mode == "object" and ctx.media_type != YAML and not (pretty or nodes):
            return _whole_list(server, ctx, table, {"resourceVersion": str(revision)})
        trigger = _trigger(ctx, predicate)
        entries = table.select(ctx.namespace, options.continue_key, trigger)
        index = table.build_index(trigger) if trigger is not None and not exact else None
        snapshot = Snapshot(zip(repeat(""), entries), len(entries), nodes, index)
    ctx.is_rendered = True
    return server.slices.run(slice_path(ctx), _list_slices(server, ctx, snapshot, predicate, options, revision, pretty))


def _trigger(ctx: RequestContext, predicate: SelectionPredicate | None) -> Trigger | None:
    return predicate.trigger if predicate is not None and ctx.resource.conversion is None else None


def _whole_list(
    server: ServerComponents, ctx: RequestContext, table: ObjectTable, metadata: Object
) -> Response | Awaitable[Response]:
    """Everything in a namespace, or everywhere, as JSON or protobuf: what informers ask for."""
    resource = ctx.resource
    if not ctx.media_type and table.count(ctx.namespace) <= SMALL_LIST:
        entries = table.select(ctx.namespace)
        is_small = sum([len(entry.data) for entry in entries]) <= SMALL_LIST_BYTES
        if is_small and (not resource.custom or {entry.normalised_for for entry in entries} <= {resource.schema_hash}):
            return small_list_response(resource, entries, metadata)
    slices = full_list_slices(resource, table, ctx.namespace, metadata, ctx.media_type)
    return server.slices.run(slice_path(ctx), slices)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The objects in the scope of a list, before its selectors."""

    rows: Iterable[Row]
    count: int
    nodes: Sequence[CachedObject] = ()
    """Nodes whose Leases belong to the list."""
    index: Generator[None, None, None] | None = None
    """Builds an index for the next list like this one."""


def _list_slices(
    server: ServerComponents,
    ctx: RequestContext,
    snapshot: Snapshot,
    predicate: SelectionPredicate | None,
    options: ListOptions,
    revision: int,
    pretty: bool,
) -> Slices[Response]:
    metadata: Object = {"resourceVersion": str(revision)}
    if snapshot.nodes:
        stored = [entry for _, entry in snapshot.rows]
        leases = yield from add_node_leases(stored, snapshot.nodes, options.continue_key, server.clock.now())
        snapshot = Snapshot(zip(repeat(""), leases), len(leases))
    rows, limit, has_more = snapshot.rows, options.limit, False
    if predicate is not None:
        rows = yield from matching_rows(ctx.resource, rows, predicate, limit)
        has_more = 0 < limit < len(rows)
    elif 0 < limit < snapshot.count:
        has_more = True
        metadata["remainingItemCount"] = snapshot.count - limit
    if has_more:
        rows = list(islice(rows, limit))
        metadata = {"resourceVersion": str(revision), "continue": _continue_after(rows[-1], revision), **metadata}
    now, include_object = server.clock.now(), ctx.query.get("includeObject", "")
    answer = yield from list_slices(ctx.resource, ctx.output, rows, metadata, now, include_object, pretty)
    if snapshot.index is not None:
        yield from snapshot.index
    return answer


def _continue_after(row: Row, revision: int) -> str:
    cluster, last = row
    return encode_continue(revision, f"{cluster}\t{last.key}" if cluster else last.key)


def _wildcard_snapshot(ctx: RequestContext, options: ListOptions, revision: int) -> Snapshot:
    """Stored objects of all logical clusters. Unwritten bootstrap objects are left out."""
    first, _, after = options.continue_key.rpartition("\t")
    tables = ctx.resource_cache.stored_at_revision(revision) if revision else ctx.resource_cache.tables
    entries_by_cluster = [
        (cluster, tables[cluster].select(ctx.namespace, after if cluster == first else ""))
        for cluster in sorted(tables)
        if cluster >= first
    ]
    count = 0
    if options.limit > 0:
        count = sum(not entry.virtual for _, entries in entries_by_cluster for entry in entries)
    rows = ((cluster, entry) for cluster, entries in entries_by_cluster for entry in entries if not entry.virtual)
    return Snapshot(rows, count)


def _digest_slices(
    server: ServerComponents, ctx: RequestContext, predicate: SelectionPredicate | None
) -> Slices[Response]:
    """Digest of the whole current state."""
    if ctx.info.cluster == WILDCARD:
        raise BadRequest(f"{DIGEST_PARAMETER} is not supported in the wildcard view")
    revision = server.cache.revision
    candidates = ctx.resource_cache.table(ctx.info.cluster).select(ctx.namespace, "", _trigger(ctx, predicate))
    try:
        client_sums = digest.decode(ctx.query[DIGEST_PARAMETER])
    except ValueError as error:
        raise BadRequest(f"invalid {DIGEST_PARAMETER}: {error}") from None
    buckets = len(client_sums)
    revisions: list[tuple[str, int]] = []
    sums = [0] * buckets
    for entry in candidates:
        if predicate is None or predicate.matches(converted_entry(ctx.resource, entry)):
            revisions.append((entry.key, entry.revision))
        yield
    for at in range(0, len(revisions), SMALL_LIST):
        for bucket, each in enumerate(digest.bucket_sums(revisions[at : at + SMALL_LIST], buckets)):
            sums[bucket] ^= each
        yield
    differing = digest.differing_buckets(tuple(sums), client_sums)
    differing_set = set(differing)
    items: dict[str, str] = {}
    for key, written in revisions:
        if digest.bucket_of(key, buckets) in differing_set:
            items[key] = str(written)
        yield
    body = {
        "kind": "Digest",
        "apiVersion": "meta.shoal.dev/v1alpha1",
        "metadata": {"resourceVersion": str(revision)},
        "count": len(revisions),
        "buckets": differing,
        "items": items,
    }
    return Response(200, orjson.dumps(body))


def list_revision(server: ServerComponents, ctx: RequestContext, options: ListOptions) -> tuple[int, bool]:
    """Returns the revision to list at, and whether exactly that one is required."""
    apply_continue_token(options)
    oldest = max(server.cache.history.oldest_revision_of(ctx.info.cluster), ctx.cluster.oldest_revision)
    return _resolve_revision(server, options, oldest)


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
