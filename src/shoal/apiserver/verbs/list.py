"""LIST: pages at one constant revision, served from memory."""

from __future__ import annotations

from shoal.apiserver import digests
from shoal.apiserver.cache import Entry
from shoal.apiserver.core import Call, Core
from shoal.apiserver.heartbeats import has_node_leases, with_node_leases
from shoal.apiserver.negotiate import PROTOBUF
from shoal.apiserver.options import EXACT, ListOptions, encode_continue, expired_continue, list_options, resume
from shoal.apiserver.paths import WILDCARD
from shoal.apiserver.render import everything, many
from shoal.apiserver.selection import Selection, selection
from shoal.apiserver.webhooks.conversion import shown
from shoal.objects.errors import BadRequest, Cause, Expired, TimedOut
from shoal.objects.wire import Response

Row = tuple[str, Entry]


def list_objects(core: Core, call: Call) -> Response:
    options = list_options(call.query, watching=False)
    chosen = selection(call.resource, options.labels, options.fields)
    at, exact = read_at(core, call, options)
    if digests.QUERY in call.query:
        return _digest(core, call, chosen)
    include = call.query.get("includeObject", "")
    if call.target.cluster == WILDCARD:
        rows = _rows_everywhere(call, options, at if exact else 0)
    else:
        kind, cluster = call.kind, call.target.cluster
        table = kind.as_of(cluster, at) if exact else kind.table(cluster)
        plain = chosen is None and not (options.limit or options.after or exact) and call.view.mode == "object"
        if plain and not has_node_leases(call):
            form = call.view.form if call.view.form == PROTOBUF else ""
            return everything(call.resource, table, call.namespace, {"resourceVersion": str(at)}, form)
        pinned = chosen is not None and call.resource.conversion is None
        found = table.select(call.namespace, options.after, chosen.pin if chosen is not None and pinned else None)
        if has_node_leases(call):
            found = with_node_leases(core, call, found, options.after)
        if chosen is None and not (0 < options.limit < len(found)):
            return many(call.resource, call.view, found, {"resourceVersion": str(at)}, core.clock.now(), include)
        rows = [("", entry) for entry in found]
    if chosen is not None:
        if call.resource.conversion is not None:
            rows = [(cluster, shown(call.resource, entry)) for cluster, entry in rows]
        rows = [row for row in rows if chosen.matches(row[1])]
    rows, metadata = _page(rows, options, at, counted=chosen is None)
    entries: list[Row] | list[Entry] = rows if call.target.cluster == WILDCARD else [entry for _, entry in rows]
    return many(call.resource, call.view, entries, metadata, core.clock.now(), include)


def _digest(core: Core, call: Call, chosen: Selection | None) -> Response:
    """Digest of the whole current state."""
    if call.target.cluster == WILDCARD:
        raise BadRequest(f"{digests.QUERY} is for one logical cluster")
    found = call.kind.table(call.target.cluster).select(call.namespace, "", chosen.pin if chosen is not None else None)
    belonging = [entry for entry in found if chosen is None or chosen.matches(entry)]
    return digests.answer(call.query[digests.QUERY], belonging, core.cache.revision)


def _page(rows: list[Row], options: ListOptions, at: int, counted: bool) -> tuple[list[Row], dict[str, object]]:
    metadata: dict[str, object] = {"resourceVersion": str(at)}
    if 0 < options.limit < len(rows):
        cluster, last = rows[options.limit - 1]
        after = f"{cluster}\t{last.key}" if cluster else last.key
        metadata["continue"] = encode_continue(at, after)
        if counted:
            metadata["remainingItemCount"] = len(rows) - options.limit
        rows = rows[: options.limit]
    return rows, metadata


def _rows_everywhere(call: Call, options: ListOptions, at: int) -> list[Row]:
    """Stored objects of all logical clusters. Unwritten bootstrap objects are left out."""
    first, _, after = options.after.rpartition("\t")
    rows: list[Row] = []
    tables = call.kind.stored_as_of(at) if at else call.kind.tables
    for cluster in sorted(tables):
        if cluster < first:
            continue
        for entry in tables[cluster].select(call.namespace, after if cluster == first else ""):
            if not entry.virtual:
                rows.append((cluster, entry))
    return rows


def read_at(core: Core, call: Call, options: ListOptions) -> tuple[int, bool]:
    """Returns the revision to list at, and whether exactly that one is required."""
    resume(options)
    return _revision(core, options, max(core.cache.oldest, call.cluster.oldest))


def _revision(core: Core, options: ListOptions, oldest: int) -> tuple[int, bool]:
    current = core.cache.revision
    if options.token:
        if options.at == -1:
            return current, False
        if options.at < oldest:
            raise expired_continue(options.after)
        if options.at > current:
            raise too_large(options.at, current)
        return options.at, True
    asked = options.revision
    if asked > current:
        raise too_large(asked, current)
    if asked and (options.match == EXACT or (options.limit > 0 and not options.match)):
        if asked < oldest:
            raise Expired("The resourceVersion for the provided list is too old.")
        return asked, True
    return current, False


def too_large(asked: int, current: int) -> TimedOut:
    return TimedOut(
        f"Timeout: Too large resource version: {asked}, current: {current}",
        causes=[Cause("ResourceVersionTooLarge", "Too large resource version")],
        retry_after=1,
    )
