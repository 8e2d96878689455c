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
from shoal.objects.apply.compare import Object, compare, owned_on_create, reconcile_with_schema, strip_untracked
from shoal.objects.apply.fieldset import FieldSet
from shoal.objects.apply.typed import TypedNode, TypeSchema
from shoal.objects.errors import BadRequest, too_many

MAX_UPDATE_MANAGERS = 10
MAX_ENTRIES = 1000
"""Far above any real object. Every write walks all of them."""
MAX_RECONCILED_HASHES = 4096
ANCIENT_CHANGES = "ancient-changes"


class FieldManager(NamedTuple):
    """Identifies an entry. An applier keeps its entry when it changes the version it applies."""

    name: str
    operation: str
    api_version: str
    subresource: str

    @property
    def sort_key(self) -> tuple[str, str, str, bool, str]:
        """Upstream orders managers by their JSON, where an entry with a subresource sorts before one without."""
        return self.name, self.operation, self.api_version, not self.subresource, self.subresource


class ManagedFieldSet(NamedTuple):
    fields: FieldSet
    api_version: str
    time: str | None


ManagedFields = dict[FieldManager, ManagedFieldSet]


def fields_v1(obj: Object, schema: TypeSchema) -> FieldSet:
    """Returns FieldsV1 of everything set in an object, as its creator owns it. Read-only: subtrees may be shared."""
    try:
        return owned_on_create(strip_untracked(obj), schema.root)
    except ValueError as error:
        raise BadRequest(f"cannot determine the fields of the object: {error}") from error
    except RecursionError:
        raise nesting_error() from None


def managed_fields_on_update(
    live: Object | None,
    new: Object,
    *,
    manager: str,
    api_version: str,
    schema: TypeSchema,
    now: str,
    subresource: str = "",
    reset: FieldSet | None = None,
    only_this_version: bool = False,
) -> list[dict[str, Any]] | None:
    """Returns the managedFields to store with `new`, or None for an object whose fields are not tracked.

    `reset` names the fields this endpoint ignores (`{"f:status": {}}` for a kind with a status subresource).
    `only_this_version`: fields owned in another version cannot be converted to this one, so their ownership is dropped.
    """
    try:
        stored = stored_entries(live)
        requested = _entries_from_request(new, stored, subresource, schema)
        if live is not None and not (stored if requested is None else requested):
            return None
        changed, removed = changed_fields(live, new, schema.root, reset)
        if requested is None and stored and not changed and not removed:
            return stored
        managed = requested if requested is not None else _decode_live(stored, schema)
        if not managed and live is not None:
            return None
        if only_this_version:
            managed = entries_of_version(managed, api_version)
        me = FieldManager(manager or "unknown", "Update", api_version, subresource)
        assign_to_manager(managed, me, changed, removed, now)
        return encode(_cap_update_managers(managed)) or None
    except ValueError:
        return None  # items without a key: the object is stored untracked, and validation reports the error
    except RecursionError:
        raise nesting_error() from None


def entries_of_version(managed: ManagedFields, api_version: str) -> ManagedFields:
    return {who: what for who, what in managed.items() if what.api_version == api_version}


def changed_fields(
    live: Object | None, new: Object, node: TypedNode, reset: FieldSet | None
) -> tuple[FieldSet, FieldSet]:
    if live is None:
        changed, removed = owned_on_create(strip_untracked(new), node), None
    else:
        added, removed = compare(strip_untracked(live), strip_untracked(new), node)
        changed = added or {}
    if reset:
        return fieldset.recursive_difference(changed, reset), fieldset.recursive_difference(removed or {}, reset)
    return changed, removed or {}


def assign_to_manager(managed: ManagedFields, me: FieldManager, changed: FieldSet, removed: FieldSet, now: str) -> None:
    """Assigns everything changed to one updater. Fields it wrote or removed are taken from all other managers."""
    remove_from_others(managed, fieldset.union(changed, removed))
    if changed:
        mine = managed.get(me)
        managed[me] = ManagedFieldSet(fieldset.union(mine.fields, changed) if mine else changed, me.api_version, now)


def remove_from_others(managed: ManagedFields, changed: FieldSet, keep: FieldManager | None = None) -> None:
    """Takes fields from all managers except one. A manager that owns nothing is removed."""
    for who, what in list(managed.items()):
        fields = what.fields if who == keep else fieldset.difference(what.fields, changed)
        if not fields:
            del managed[who]
        elif fields != what.fields:
            managed[who] = what._replace(fields=fields)


def stored_entries(obj: Object | None) -> list[dict[str, Any]]:
    entries = _raw_entries(obj or {})
    return entries if isinstance(entries, list) else []


def _raw_entries(obj: Object) -> Any:
    meta = obj.get("metadata")
    return meta.get("managedFields") if isinstance(meta, dict) else None


def _entries_from_request(
    new: Object, stored: list[dict[str, Any]], subresource: str, schema: TypeSchema
) -> ManagedFields | None:
    """Returns the managedFields of the request: None if unusable, empty if they are to be reset."""
    entries = _raw_entries(new)
    if subresource or not isinstance(entries, list) or (entries and entries == stored):
        return None
    if entries in ([], [{}]):
        return {}
    if len(entries) > MAX_ENTRIES:
        cause = too_many("metadata.managedFields", len(entries), MAX_ENTRIES)
        raise BadRequest(cause.message, causes=[cause])
    try:
        return decode(entries, schema)
    except ValueError:
        return None


def _decode_live(stored: list[dict[str, Any]], schema: TypeSchema) -> ManagedFields:
    try:
        return decode(stored, schema)
    except ValueError:
        return {}


def decode(entries: list[Any], schema: TypeSchema) -> ManagedFields:
    """Raises ValueError for entries upstream does not accept."""
    out: ManagedFields = {}
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
        who = FieldManager(name, operation, "" if operation == "Apply" else version, subresource)
        out[who] = ManagedFieldSet(
            _decode_fields(entry.get("fieldsV1"), schema), version, _parse_time(entry.get("time"))
        )
    return out


def _decode_fields(raw: object, schema: TypeSchema) -> FieldSet:
    """Returns a canonical set that fits the schema. Sets that were checked once are recognised by their hash."""
    if not raw:
        return {}
    try:
        digest = hash(orjson.dumps(raw))
    except TypeError:
        raise ValueError("fieldsV1 is nested too deeply") from None
    if digest in schema.reconciled_hashes and type(raw) is dict:
        return raw
    fields = reconcile_with_schema(fieldset.decode(raw), schema.root)
    if fields is raw:
        if len(schema.reconciled_hashes) >= MAX_RECONCILED_HASHES:
            schema.reconciled_hashes.clear()
        schema.reconciled_hashes.add(digest)
    return fields


def encode(managed: ManagedFields) -> list[dict[str, Any]]:
    out = []
    for who, what in sorted(managed.items(), key=_entry_sort_key):
        entry: dict[str, Any] = {"manager": who.name} if who.name else {}
        entry |= {"operation": who.operation, "apiVersion": what.api_version}
        if what.time:
            entry["time"] = what.time
        entry |= {"fieldsType": "FieldsV1", "fieldsV1": what.fields}
        if who.subresource:
            entry["subresource"] = who.subresource
        out.append(entry)
    return out


def _entry_sort_key(item: tuple[FieldManager, ManagedFieldSet]) -> tuple[str, ...]:
    who, what = item
    return who.operation, what.time or "", who.name, what.api_version, who.subresource


def _parse_time(value: object) -> str | None:
    """Times are compared as text, so they are kept in one format."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError("time must be a string")
    return _canonical_time(value)


@lru_cache(maxsize=1024)
def _canonical_time(text: str) -> str:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("time must have a zone")
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _cap_update_managers(managed: ManagedFields) -> ManagedFields:
    """Keeps at most ten update managers: the oldest entries of each version are merged into one."""
    updaters = [item for item in managed.items() if item[0].operation == "Update"]
    excess = len(updaters) - MAX_UPDATE_MANAGERS
    if excess <= 0:
        return managed
    oldest: dict[str, list[FieldManager]] = {}
    for who, what in sorted(updaters, key=lambda item: (item[1].time or "", item[0].sort_key)):
        if excess <= 0:
            break
        group = oldest.setdefault(what.api_version, [])
        excess -= bool(group)
        group.append(who)
    for version, group in oldest.items():
        if len(group) > 1:
            time = managed[group[-1]].time
            bucket = FieldManager(ANCIENT_CHANGES, "Update", version, "")
            merged = [managed.pop(who).fields for who in dict.fromkeys((*group, bucket)) if who in managed]
            managed[bucket] = ManagedFieldSet(fieldset.union_all(merged), version, time)
    return managed


def nesting_error() -> BadRequest:
    return BadRequest("the object is nested too deeply to track field ownership")
