"""metadata.managedFields: decoded from the wire, updated on every write, encoded again.

`managed_fields_on_update` is for create, update and every patch except apply; `serverside` handles apply. The manager's
name, the version and the time are arguments. Requests are not known here.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from shoal.objects.apply import fieldset
from shoal.objects.apply.compare import Object, compare, created, reconciled, tracked
from shoal.objects.apply.fieldset import Fields
from shoal.objects.apply.typed import Node, TypeSchema
from shoal.objects.errors import BadRequest, too_many

MAX_UPDATE_MANAGERS = 10
MAX_ENTRIES = 1000
"""Far above any real object. Every write walks all of them."""
MAX_SETTLED = 4096
ANCIENT = "ancient-changes"


class Manager(NamedTuple):
    """Identifies an entry. An applier keeps its entry when it changes the version it applies."""

    name: str
    operation: str
    api_version: str
    subresource: str

    @property
    def rank(self) -> tuple[str, str, str, bool, str]:
        """Upstream orders managers by their JSON, where an entry with a subresource sorts before one without."""
        return self.name, self.operation, self.api_version, not self.subresource, self.subresource


class Owned(NamedTuple):
    fields: Fields
    api_version: str
    time: str | None


Managed = dict[Manager, Owned]


def fields_v1(obj: Object, schema: TypeSchema) -> Fields:
    """Returns FieldsV1 of everything set in an object, as its creator owns it. Read-only: subtrees may be shared."""
    try:
        return created(tracked(obj), schema.root)
    except ValueError as error:
        raise BadRequest(f"cannot tell the fields of the object: {error}") from error
    except RecursionError:
        raise too_deep() from None


def on_update(
    live: Object | None,
    new: Object,
    *,
    manager: str,
    api_version: str,
    schema: TypeSchema,
    now: str,
    subresource: str = "",
    reset: Fields | None = None,
    alone: bool = False,
) -> list[dict[str, Any]] | None:
    """Returns the managedFields to store with `new`, or None for an object whose fields are not tracked.

    `reset` names the fields this endpoint ignores (`{"f:status": {}}` for a kind with a status subresource).
    `only_this_version`: fields owned in another version cannot be converted to this one, so their ownership is dropped.
    """
    try:
        stored = stored_entries(live)
        given = _given(new, stored, subresource, schema)
        if live is not None and not (stored if given is None else given):
            return None
        changed, removed = changes(live, new, schema.root, reset)
        if given is None and stored and not changed and not removed:
            return stored
        managed = given if given is not None else _decode_live(stored, schema)
        if not managed and live is not None:
            return None
        if alone:
            managed = of_version(managed, api_version)
        me = Manager(manager or "unknown", "Update", api_version, subresource)
        take(managed, me, changed, removed, now)
        return encode(_capped(managed)) or None
    except ValueError:
        return None  # items without a key: the object is stored untracked, and validation reports the error
    except RecursionError:
        raise too_deep() from None


def of_version(managed: Managed, api_version: str) -> Managed:
    return {who: what for who, what in managed.items() if what.api_version == api_version}


def changes(live: Object | None, new: Object, node: Node, reset: Fields | None) -> tuple[Fields, Fields]:
    if live is None:
        changed, removed = created(tracked(new), node), None
    else:
        came, removed = compare(tracked(live), tracked(new), node)
        changed = came or {}
    if reset:
        return fieldset.without(changed, reset), fieldset.without(removed or {}, reset)
    return changed, removed or {}


def take(managed: Managed, me: Manager, changed: Fields, removed: Fields, now: str) -> None:
    """Assigns everything changed to one updater. Fields it wrote or removed are taken from all other managers."""
    release(managed, fieldset.union(changed, removed))
    if changed:
        mine = managed.get(me)
        managed[me] = Owned(fieldset.union(mine.fields, changed) if mine else changed, me.api_version, now)


def release(managed: Managed, touched: Fields, keep: Manager | None = None) -> None:
    """Takes fields from all managers except one. A manager that owns nothing is removed."""
    for who, what in list(managed.items()):
        fields = what.fields if who == keep else fieldset.difference(what.fields, touched)
        if not fields:
            del managed[who]
        elif fields != what.fields:
            managed[who] = what._replace(fields=fields)


def stored_entries(obj: Object | None) -> list[dict[str, Any]]:
    said = _said(obj or {})
    return said if isinstance(said, list) else []


def _said(obj: Object) -> Any:
    meta = obj.get("metadata")
    return meta.get("managedFields") if isinstance(meta, dict) else None


def _given(new: Object, stored: list[dict[str, Any]], subresource: str, schema: TypeSchema) -> Managed | None:
    """Returns the managedFields of the request: None if unusable, empty if they are to be reset."""
    said = _said(new)
    if subresource or not isinstance(said, list) or (said and said == stored):
        return None
    if said in ([], [{}]):
        return {}
    if len(said) > MAX_ENTRIES:
        cause = too_many("metadata.managedFields", len(said), MAX_ENTRIES)
        raise BadRequest(cause.message, causes=[cause])
    try:
        return decode(said, schema)
    except ValueError:
        return None


def _decode_live(stored: list[dict[str, Any]], schema: TypeSchema) -> Managed:
    try:
        return decode(stored, schema)
    except ValueError:
        return {}


def decode(entries: list[Any], schema: TypeSchema) -> Managed:
    """Raises ValueError for entries upstream does not accept."""
    out: Managed = {}
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise ValueError(f"managed fields entry {index} must be an object")
        operation, version = entry.get("operation"), entry.get("apiVersion")
        if operation not in ("Apply", "Update"):
            raise ValueError("operation must be `Apply` or `Update`")
        if not version or not isinstance(version, str):
            raise ValueError("apiVersion must not be empty")
        kind = entry.get("fieldsType")
        if not kind:
            raise ValueError(f"missing fieldsType in managed fields entry {index}")
        if kind != "FieldsV1":
            raise ValueError(f'invalid fieldsType "{kind}" in managed fields entry {index}')
        name, subresource = entry.get("manager") or "", entry.get("subresource") or ""
        if not isinstance(name, str) or not isinstance(subresource, str):
            raise ValueError(f"manager and subresource of managed fields entry {index} must be strings")
        who = Manager(name, operation, "" if operation == "Apply" else version, subresource)
        out[who] = Owned(_read(entry.get("fieldsV1"), schema), version, _time(entry.get("time")))
    return out


def _read(raw: object, schema: TypeSchema) -> Fields:
    """Returns a canonical set that fits the schema. Sets that were checked once are recognised by their hash."""
    if not raw:
        return {}
    try:
        mark = hash(orjson.dumps(raw))
    except TypeError:
        raise ValueError("fieldsV1 is nested too deeply") from None
    if mark in schema.settled and type(raw) is dict:
        return raw
    fields = reconciled(fieldset.decode(raw), schema.root)
    if fields is raw:
        if len(schema.settled) >= MAX_SETTLED:
            schema.settled.clear()
        schema.settled.add(mark)
    return fields


def encode(managed: Managed) -> list[dict[str, Any]]:
    out = []
    for who, what in sorted(managed.items(), key=_order):
        entry: dict[str, Any] = {"manager": who.name} if who.name else {}
        entry |= {"operation": who.operation, "apiVersion": what.api_version}
        if what.time:
            entry["time"] = what.time
        entry |= {"fieldsType": "FieldsV1", "fieldsV1": what.fields}
        if who.subresource:
            entry["subresource"] = who.subresource
        out.append(entry)
    return out


def _order(item: tuple[Manager, Owned]) -> tuple[str, ...]:
    who, what = item
    return who.operation, what.time or "", who.name, what.api_version, who.subresource


def _time(said: object) -> str | None:
    """Times are compared as text, so they are kept in one format."""
    if said is None:
        return None
    if not isinstance(said, str):
        raise ValueError("time must be a string")
    return _in_one_form(said)


@lru_cache(maxsize=1024)
def _in_one_form(said: str) -> str:
    moment = datetime.fromisoformat(said)
    if moment.tzinfo is None:
        raise ValueError("time must have a zone")
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _capped(managed: Managed) -> Managed:
    """Keeps at most ten update managers: the oldest entries of each version are merged into one."""
    updaters = [item for item in managed.items() if item[0].operation == "Update"]
    excess = len(updaters) - MAX_UPDATE_MANAGERS
    if excess <= 0:
        return managed
    oldest: dict[str, list[Manager]] = {}
    for who, what in sorted(updaters, key=lambda item: (item[1].time or "", item[0].rank)):
        if excess <= 0:
            break
        group = oldest.setdefault(what.api_version, [])
        excess -= bool(group)
        group.append(who)
    for version, group in oldest.items():
        if len(group) > 1:
            time = managed[group[-1]].time
            bucket = Manager(ANCIENT, "Update", version, "")
            merged = [managed.pop(who).fields for who in dict.fromkeys((*group, bucket)) if who in managed]
            managed[bucket] = Owned(fieldset.union_all(merged), version, time)
    return managed


def too_deep() -> BadRequest:
    return BadRequest("the object is nested too deeply to tell who owns its fields")
