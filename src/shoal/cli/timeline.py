"""The history of an object in chronological order: its Events, and the transitions in its status.

Events expire an hour after they were last written; conditions and errors of the status show what was before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from shoal.client.rest import Client, GroupVersionResource
from shoal.client.restmapper import preferred_versions, resource_for, server_resources
from shoal.kinds.fleet import infrav1
from shoal.objects.duration import parse_time
from shoal.objects.errors import Expired

Object = dict[str, Any]
EVENTS = GroupVersionResource("", "v1", "events")
NORMAL, WARNING = "Normal", "Warning"


@dataclass(frozen=True, slots=True)
class TimelineRequest:
    kind: str
    name: str
    namespace: str
    follow: bool = False
    tail: int | None = None
    """Only the last so many entries."""


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    at: float
    type: str
    reason: str
    message: str
    by: str = ""
    count: int = 1


async def print_timeline(
    client: Client, request: TimelineRequest, print_entry: Callable[[TimelineEntry], None]
) -> list[TimelineEntry]:
    """Prints the entries; with `follow` it does not end by itself. Raises NotFound if neither the object nor its Events
    exist.
    """
    kind = resource_for(preferred_versions(await server_resources(client)), request.kind)
    namespace = request.namespace if kind.gvr.namespaced else ""
    if (kind.gvr.group, kind.kind) == (infrav1.GROUP, infrav1.WORKER):
        namespace = infrav1.NAMESPACE
    sources = [
        # Events of cluster-scoped objects are in default.
        _TimelineSource(
            EVENTS, namespace or "default", f"involvedObject.kind={kind.kind},involvedObject.name={request.name}"
        ),
        _TimelineSource(kind.gvr, namespace, f"metadata.name={request.name}"),
    ]
    entries = await _list_entries(client, sources)
    if not entries:
        await client.get(kind.gvr, request.name, namespace)
    shown = entries if request.tail is None else entries[max(len(entries) - request.tail, 0) :]
    for entry in shown:
        print_entry(entry)
    seen = set(entries)
    while request.follow:
        with suppress(Expired):
            await _follow(client, sources, seen, print_entry)
        # A watch ends by itself after a while; the next list contains what came meanwhile.
        for entry in await _list_entries(client, sources):
            if entry not in seen:
                seen.add(entry)
                print_entry(entry)
    return shown


@dataclass(slots=True)
class _TimelineSource:
    kind: GroupVersionResource
    namespace: str
    fields: str
    revision: str = ""
    """The resourceVersion of the last list."""

    def entries(self, obj: Object) -> list[TimelineEntry]:
        return [event_entry(obj)] if self.kind is EVENTS else object_entries(obj)


async def _list_entries(client: Client, sources: list[_TimelineSource]) -> list[TimelineEntry]:
    entries: set[TimelineEntry] = set()
    for source in sources:
        objects, source.revision = await client.list_all(source.kind, source.namespace, fields=source.fields)
        entries.update(entry for obj in objects for entry in source.entries(obj))
    return sorted(entries, key=_sort_key)


async def _follow(
    client: Client,
    sources: list[_TimelineSource],
    seen: set[TimelineEntry],
    print_entry: Callable[[TimelineEntry], None],
) -> None:
    """Returns when one of the watches ends."""
    import asyncio  # noqa: PLC0415  the event loop runs by now; help has none

    async def follow_source(source: _TimelineSource) -> None:
        query = {"fieldSelector": source.fields, "resourceVersion": source.revision}
        async for change in client.watch(source.kind, source.namespace, query):
            new = set(source.entries(change["object"])) - seen if change["type"] in ("ADDED", "MODIFIED") else set()
            seen.update(new)
            for entry in sorted(new, key=_sort_key):
                print_entry(entry)

    tasks = [asyncio.create_task(follow_source(source)) for source in sources]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def event_entry(event: Object) -> TimelineEntry:
    series = event.get("series") or {}
    at = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return TimelineEntry(
        parse_time(at) or parse_time(event["metadata"].get("creationTimestamp")) or 0.0,
        str(event.get("type") or NORMAL),
        str(event.get("reason") or "-"),
        _one_line(event.get("message")),
        str((event.get("source") or {}).get("component") or event.get("reportingComponent") or ""),
        int(series.get("count") or event.get("count") or 1),
    )


def object_entries(obj: Object) -> list[TimelineEntry]:
    """Returns its creation, the last transition of each condition, its errors, and its deletion."""
    metadata, status = obj["metadata"], obj.get("status") or {}
    rows = [(metadata.get("creationTimestamp"), NORMAL, "Created", "")]
    if "deletionTimestamp" in metadata:
        finalizers = ", ".join(metadata.get("finalizers") or ())
        rows.append(
            (
                metadata["deletionTimestamp"],
                NORMAL,
                "Deleted",
                f"waiting for finalizers {finalizers}" if finalizers else "",
            )
        )
    for one in status.get("conditions") or ():
        condition_text = f"{one['type']} is {one['status']}"
        message = ": ".join(filter(None, (condition_text, str(one.get("message") or ""))))
        rows.append((one.get("lastTransitionTime"), NORMAL, str(one.get("reason") or one["type"]), message))
    for one in status.get("errors") or ():
        rows.append((one.get("time"), WARNING, str(one.get("reason") or "-"), str(one.get("message") or "")))
    return [
        TimelineEntry(at, type_, reason, _one_line(message), "status" if reason not in ("Created", "Deleted") else "")
        for moment, type_, reason, message in rows
        if (at := parse_time(moment)) is not None
    ]


def format_entry(entry: TimelineEntry) -> str:
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.at))
    count_text = f" ({entry.count} times)" if entry.count > 1 else ""
    by = f"  [{entry.by}]" if entry.by else ""
    text = f"{entry.reason}: {entry.message}" if entry.message else entry.reason
    return f"{at}  {entry.type:<7}  {text}{count_text}{by}"


def _sort_key(entry: TimelineEntry) -> tuple[float, bool, str]:
    return entry.at, entry.reason != "Created", entry.message


def _one_line(text: object) -> str:
    return " ".join(str(text or "").split())
