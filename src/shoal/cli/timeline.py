"""The history of an object in chronological order: its Events, and the transitions in its status.

Events expire an hour after they were last written; conditions and errors of the status show what was before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from shoal.client.naming import named, preferred, served
from shoal.client.requests import Client, Kind
from shoal.kinds import fleet
from shoal.objects.duration import parse_time
from shoal.objects.errors import Expired

Object = dict[str, Any]
EVENTS = Kind("", "v1", "events")
NORMAL, WARNING = "Normal", "Warning"


@dataclass(frozen=True, slots=True)
class Asked:
    kind: str
    name: str
    namespace: str
    follow: bool = False
    tail: int | None = None
    """Only the last so many entries."""


@dataclass(frozen=True, slots=True)
class Entry:
    at: float
    type: str
    reason: str
    message: str
    by: str = ""
    count: int = 1


async def tell_of(client: Client, asked: Asked, say: Callable[[Entry], None]) -> list[Entry]:
    """Prints the entries; with `follow` it does not end by itself. Raises NotFound if neither the object nor its Events
    exist.
    """
    kind = named(preferred(await served(client)), asked.kind)
    namespace = asked.namespace if kind.kind.namespaced else ""
    if (kind.kind.group, kind.name) == (fleet.GROUP, fleet.WORKER):
        namespace = fleet.NAMESPACE
    sources = [
        # Events of cluster-scoped objects are in default.
        _Source(EVENTS, namespace or "default", f"involvedObject.kind={kind.name},involvedObject.name={asked.name}"),
        _Source(kind.kind, namespace, f"metadata.name={asked.name}"),
    ]
    entries = await _look(client, sources)
    if not entries:
        await client.get(kind.kind, asked.name, namespace)
    shown = entries if asked.tail is None else entries[max(len(entries) - asked.tail, 0) :]
    for entry in shown:
        say(entry)
    known = set(entries)
    while asked.follow:
        with suppress(Expired):
            await _follow(client, sources, known, say)
        # A watch ends by itself after a while; the next list contains what came meanwhile.
        for entry in await _look(client, sources):
            if entry not in known:
                known.add(entry)
                say(entry)
    return shown


@dataclass(slots=True)
class _Source:
    kind: Kind
    namespace: str
    fields: str
    revision: str = ""
    """The resourceVersion of the last list."""

    def entries(self, obj: Object) -> list[Entry]:
        return [of_event(obj)] if self.kind is EVENTS else of_object(obj)


async def _look(client: Client, sources: list[_Source]) -> list[Entry]:
    found: set[Entry] = set()
    for source in sources:
        objects, source.revision = await client.list_all(source.kind, source.namespace, fields=source.fields)
        found.update(entry for obj in objects for entry in source.entries(obj))
    return sorted(found, key=_order)


async def _follow(client: Client, sources: list[_Source], known: set[Entry], say: Callable[[Entry], None]) -> None:
    """Returns when one of the watches ends."""
    import asyncio  # noqa: PLC0415  the event loop runs by now; help has none

    async def one(source: _Source) -> None:
        query = {"fieldSelector": source.fields, "resourceVersion": source.revision}
        async for change in client.watch(source.kind, source.namespace, query):
            new = set(source.entries(change["object"])) - known if change["type"] in ("ADDED", "MODIFIED") else set()
            known.update(new)
            for entry in sorted(new, key=_order):
                say(entry)

    tasks = [asyncio.create_task(one(source)) for source in sources]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def of_event(event: Object) -> Entry:
    series = event.get("series") or {}
    at = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return Entry(
        parse_time(at) or parse_time(event["metadata"].get("creationTimestamp")) or 0.0,
        str(event.get("type") or NORMAL),
        str(event.get("reason") or "-"),
        _one_line(event.get("message")),
        str((event.get("source") or {}).get("component") or event.get("reportingComponent") or ""),
        int(series.get("count") or event.get("count") or 1),
    )


def of_object(obj: Object) -> list[Entry]:
    """Returns its creation, the last transition of each condition, its errors, and its deletion."""
    metadata, status = obj["metadata"], obj.get("status") or {}
    found = [(metadata.get("creationTimestamp"), NORMAL, "Created", "")]
    if "deletionTimestamp" in metadata:
        waits = ", ".join(metadata.get("finalizers") or ())
        found.append((metadata["deletionTimestamp"], NORMAL, "Deleted", f"waits for {waits}" if waits else ""))
    for one in status.get("conditions") or ():
        said = f"{one['type']} is {one['status']}"
        message = ": ".join(filter(None, (said, str(one.get("message") or ""))))
        found.append((one.get("lastTransitionTime"), NORMAL, str(one.get("reason") or one["type"]), message))
    for one in status.get("errors") or ():
        found.append((one.get("time"), WARNING, str(one.get("reason") or "-"), str(one.get("message") or "")))
    return [
        Entry(at, type_, reason, _one_line(message), "status" if reason not in ("Created", "Deleted") else "")
        for moment, type_, reason, message in found
        if (at := parse_time(moment)) is not None
    ]


def line(entry: Entry) -> str:
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.at))
    often = f" ({entry.count} times)" if entry.count > 1 else ""
    by = f"  [{entry.by}]" if entry.by else ""
    said = f"{entry.reason}: {entry.message}" if entry.message else entry.reason
    return f"{at}  {entry.type:<7}  {said}{often}{by}"


def _order(entry: Entry) -> tuple[float, bool, str]:
    return entry.at, entry.reason != "Created", entry.message


def _one_line(text: object) -> str:
    return " ".join(str(text or "").split())
