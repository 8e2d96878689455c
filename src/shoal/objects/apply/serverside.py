"""Server-side apply: merges, removes fields that are no longer applied, and reports conflicts with other managers.

The returned object shares subtrees with the live object and the configuration. The caller defaults and validates it,
and drops the fields the endpoint does not write (see `reset`).
"""

from __future__ import annotations

from typing import Any

from shoal.objects.apply import fieldset, lastapplied
from shoal.objects.apply.compare import UNTRACKED, Object, applied, compare, tracked, with_named, without_items
from shoal.objects.apply.fieldset import Fields
from shoal.objects.apply.managed import (
    Managed,
    Manager,
    Owned,
    changes,
    decode,
    encode,
    of_version,
    release,
    stored_entries,
    take,
    too_deep,
)
from shoal.objects.apply.merge import merge, problems
from shoal.objects.apply.typed import MISSING, Node, TypeSchema
from shoal.objects.errors import BadRequest, Cause, Conflict

BEFORE_FIRST_APPLY = "before-first-apply"
Conflicts = dict[Manager, Fields]


def apply(
    live: Object | None,
    config: Object,
    *,
    manager: str,
    api_version: str,
    schema: TypeSchema,
    force: bool,
    now: str,
    subresource: str = "",
    reset: Fields | None = None,
    alone: bool = False,
) -> Object:
    """Returns the live object with `config` applied and its managedFields updated.

    `reset` names the fields this endpoint ignores: they are neither owned nor in conflict. `only_this_version` as in
    `managed_fields_on_update`.
    """
    me = Manager(manager or "unknown", "Apply", "", subresource)
    try:
        _check(live, config, api_version, schema.root)
        managed = _managed(live, me, api_version, schema, now, reset)
        if alone:
            managed = of_version(managed, api_version)
        run = _Run(live or {}, config, me, api_version, schema.root, reset or {})
        merged = run.merge(managed)
        conflicts = run.conflicts(managed, merged)
        if conflicts and manager == lastapplied.MANAGER:
            conflicts = _excused(conflicts, live or {}, api_version, schema.root)
        if conflicts and not force:
            raise _conflict(conflicts)
        out = run.settle(managed, merged, now)
    except ValueError as error:
        raise BadRequest(f"failed to apply {_who(config, api_version)}: {error}") from error
    except RecursionError:
        raise too_deep() from None
    return lastapplied.refreshed(out, config) if manager == lastapplied.MANAGER else out


class _Run:
    """One apply. Its methods are called in order and update the managers step by step."""

    def __init__(self, live: Object, config: Object, me: Manager, api_version: str, node: Node, reset: Fields) -> None:
        self.live, self.config, self.node, self.reset = live, _without_null_time(config), node, reset
        self.me, self.api_version = me, api_version
        self.changed: Fields = {}
        self.removed: Fields = {}

    def merge(self, managed: Managed) -> Object:
        """Returns the merged object without fields that only this manager applied before and does not apply now."""
        merged: Object = merge(self.live, self.config, self.node)
        fields = fieldset.without(applied(self.config, self.node) or {}, self.reset)
        last = managed.get(self.me)
        managed[self.me] = Owned(fields, self.api_version, last.time if last else None)
        if not last or not fieldset.difference(last.fields, fields):
            return merged
        everybody = fieldset.union_all([what.fields for what in managed.values()])
        pruned = _pruned(merged, last.fields, everybody, self.node)
        # A container that is now applied as empty may have been removed with its content.
        settled: Object = merge(pruned, self.config, self.node)
        return settled

    def conflicts(self, managed: Managed, merged: Object) -> Conflicts:
        changed, removed = compare(tracked(self.live), tracked(merged), self.node)
        self.changed = fieldset.without(changed or {}, self.reset)
        self.removed = fieldset.without(removed or {}, self.reset)
        found: Conflicts = {}
        for who, what in managed.items():
            both = fieldset.intersection(what.fields, self.changed) if who != self.me else None
            if both:
                found[who] = both
        return found

    def settle(self, managed: Managed, merged: Object, now: str) -> Object:
        """Returns the object to store. An unchanged object keeps its times, so that nothing is written for it."""
        release(managed, fieldset.union(self.changed, self.removed), keep=self.me)
        same = _same(self.live, merged)
        mine = managed.pop(self.me)
        fields = fieldset.difference(mine.fields, UNTRACKED)
        if fields:
            managed[self.me] = Owned(fields, self.api_version, mine.time if same else now)
        meta = dict(merged.get("metadata") or {})
        meta.pop("managedFields", None)
        entries = encode(managed)
        if entries:
            meta["managedFields"] = entries
        return {**merged, "metadata": meta}


def _managed(
    live: Object | None, me: Manager, api_version: str, schema: TypeSchema, now: str, reset: Fields | None
) -> Managed:
    if live is None:
        return {}
    try:
        managed = decode(stored_entries(live), schema)
    except ValueError as error:
        raise BadRequest(f"failed to decode managed fields: {error}") from error
    if not managed:
        changed, _ = changes(None, live, schema.root, reset)
        take(managed, Manager(BEFORE_FIRST_APPLY, "Update", api_version, me.subresource), changed, {}, now)
    return managed


def _pruned(merged: Object, last: Fields, everybody: Fields, node: Node) -> Object:
    """Removes in three steps: drop everything applied last time, add back what any manager owns, then what this manager
    never owned. A struct can only be removed as a whole if the declared parent fields are counted as members.
    """
    had = with_named(last, node)
    everything = _named_fields(merged, node)
    kept = _named_fields(without_items(merged, had, node), node)
    unowned = fieldset.difference(everything, fieldset.union(kept, with_named(everybody, node)))
    kept = _named_fields(without_items(merged, unowned, node), node)
    doomed = fieldset.intersection(fieldset.difference(everything, kept), had)
    left = without_items(merged, doomed, node, MISSING)
    return left if type(left) is dict else {}


def _named_fields(obj: Any, node: Node) -> Fields:
    return with_named(applied(obj, node) or {}, node)


def _check(live: Object | None, config: Object, api_version: str, node: Node) -> None:
    kind = config.get("kind", "")
    if config.get("apiVersion") != api_version or (live and live.get("kind", kind) != kind):
        raise BadRequest(f"invalid object type: {_type(config.get('apiVersion', ''), kind)}")
    meta = config.get("metadata")
    if isinstance(meta, dict) and meta.get("managedFields") is not None:
        raise BadRequest("metadata.managedFields must be nil")
    wrong = problems(config, node)
    if wrong:
        said = wrong[0] if len(wrong) == 1 else "\n  ".join(["errors:", *wrong])
        raise BadRequest(f"failed to create typed patch object ({_who(config, api_version)}): {said}")


def _excused(conflicts: Conflicts, live: Object, api_version: str, node: Node) -> Conflicts:
    """The same tool may take over fields that client-side apply still holds unchanged."""
    allowed = lastapplied.fields(live, api_version, node)
    left = {who: fieldset.difference(fields, allowed) for who, fields in conflicts.items()}
    return {who: fields for who, fields in left.items() if fields}


def _conflict(conflicts: Conflicts) -> Conflict:
    managers = sorted(conflicts, key=lambda who: who.rank)
    found = [(_name(who), path) for who in managers for path in fieldset.paths(conflicts[who])]
    causes = [Cause("FieldManagerConflict", f"conflict with {name}", path) for name, path in found]
    if len(found) == 1:
        name, path = found[0]
        return Conflict(f"Apply failed with 1 conflict: conflict with {name}: {path}", causes=causes)
    lines: list[str] = []
    for who in managers:
        lines.append(f"conflicts with {_name(who)}:")
        lines += [f"- {path}" for path in fieldset.paths(conflicts[who])]
    return Conflict(f"Apply failed with {len(found)} conflicts: " + "\n".join(lines), causes=causes)


def _name(who: Manager) -> str:
    said = fieldset.quote(who.name)
    if who.subresource:
        said += f" with subresource {fieldset.quote(who.subresource)}"
    return f"{said} using {who.api_version}" if who.operation == "Update" else said


def _type(api_version: object, kind: object) -> str:
    version = str(api_version)
    return f"{version if '/' in version else '/' + version}, Kind={kind}"


def _who(config: Object, api_version: str) -> str:
    meta = config.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    return f"{meta.get('namespace', '')}/{meta.get('name', '')}; {_type(api_version, config.get('kind', ''))}"


def _without_null_time(config: Object) -> Object:
    """Clients print `creationTimestamp: null` into every manifest. It must not count as a change."""
    meta = config.get("metadata")
    if isinstance(meta, dict) and meta.get("creationTimestamp", MISSING) is None:
        return {**config, "metadata": {key: value for key, value in meta.items() if key != "creationTimestamp"}}
    return config


def _same(one: Any, two: Any) -> bool:
    """Equality that distinguishes `true` from `1`."""
    if type(one) is dict and type(two) is dict:
        return one.keys() == two.keys() and all(_same(value, two[key]) for key, value in one.items())
    if type(one) is list and type(two) is list:
        return len(one) == len(two) and all(map(_same, one, two))
    return bool(one == two) and (type(one) is bool) == (type(two) is bool)
