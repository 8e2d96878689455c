"""Server-side apply: merges, removes fields that are no longer applied, and reports conflicts with other managers.

The returned object shares subtrees with the live object and the configuration. The caller defaults and validates it,
and drops the fields the endpoint does not write (see `reset`).
"""

from __future__ import annotations

from typing import Any

from shoal.objects.apply import fieldset, lastapplied
from shoal.objects.apply.compare import (
    UNTRACKED_FIELDS,
    Object,
    applied_fields,
    compare,
    remove_fields,
    strip_untracked,
    with_parent_fields,
)
from shoal.objects.apply.fieldset import FieldSet
from shoal.objects.apply.managed import (
    FieldManager,
    ManagedFields,
    ManagedFieldSet,
    assign_to_manager,
    changed_fields,
    decode,
    encode,
    entries_of_version,
    nesting_error,
    remove_from_others,
    stored_entries,
)
from shoal.objects.apply.merge import merge, typed_errors
from shoal.objects.apply.typed import MISSING, TypedNode, TypeSchema
from shoal.objects.errors import BadRequest, Cause, Conflict

BEFORE_FIRST_APPLY = "before-first-apply"
Conflicts = dict[FieldManager, FieldSet]


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
    reset: FieldSet | None = None,
    only_this_version: bool = False,
) -> Object:
    """Returns the live object with `config` applied and its managedFields updated.

    `reset` names the fields this endpoint ignores: they are neither owned nor in conflict. `only_this_version` as in
    `managed_fields_on_update`.
    """
    me = FieldManager(manager or "unknown", "Apply", "", subresource)
    try:
        _check_config(live, config, api_version, schema.root)
        managed = _live_managed_fields(live, me, api_version, schema, now, reset)
        if only_this_version:
            managed = entries_of_version(managed, api_version)
        run = _ApplyRun(live or {}, config, me, api_version, schema.root, reset or {})
        merged = run.merge(managed)
        conflicts = run.conflicts(managed, merged)
        if conflicts and manager == lastapplied.KUBECTL_MANAGER:
            conflicts = _drop_last_applied_conflicts(conflicts, live or {}, api_version, schema.root)
        if conflicts and not force:
            raise _conflict_error(conflicts)
        out = run.finish(managed, merged, now)
    except ValueError as error:
        raise BadRequest(f"failed to apply {_describe_object(config, api_version)}: {error}") from error
    except RecursionError:
        raise nesting_error() from None
    return lastapplied.refresh_annotation(out, config) if manager == lastapplied.KUBECTL_MANAGER else out


class _ApplyRun:
    """One apply. Its methods are called in order and update the managers step by step."""

    def __init__(
        self, live: Object, config: Object, me: FieldManager, api_version: str, node: TypedNode, reset: FieldSet
    ) -> None:
        self.live, self.config, self.node, self.reset = live, _without_null_time(config), node, reset
        self.me, self.api_version = me, api_version
        self.changed: FieldSet = {}
        self.removed: FieldSet = {}

    def merge(self, managed: ManagedFields) -> Object:
        """Returns the merged object without fields that only this manager applied before and does not apply now."""
        merged: Object = merge(self.live, self.config, self.node)
        fields = fieldset.recursive_difference(applied_fields(self.config, self.node) or {}, self.reset)
        last = managed.get(self.me)
        managed[self.me] = ManagedFieldSet(fields, self.api_version, last.time if last else None)
        if not last or not fieldset.difference(last.fields, fields):
            return merged
        all_fields = fieldset.union_all([what.fields for what in managed.values()])
        pruned = _prune(merged, last.fields, all_fields, self.node)
        # A container that is now applied as empty may have been removed with its content.
        remerged: Object = merge(pruned, self.config, self.node)
        return remerged

    def conflicts(self, managed: ManagedFields, merged: Object) -> Conflicts:
        changed, removed = compare(strip_untracked(self.live), strip_untracked(merged), self.node)
        self.changed = fieldset.recursive_difference(changed or {}, self.reset)
        self.removed = fieldset.recursive_difference(removed or {}, self.reset)
        conflicts_by_manager: Conflicts = {}
        for who, what in managed.items():
            shared = fieldset.intersection(what.fields, self.changed) if who != self.me else None
            if shared:
                conflicts_by_manager[who] = shared
        return conflicts_by_manager

    def finish(self, managed: ManagedFields, merged: Object, now: str) -> Object:
        """Returns the object to store. An unchanged object keeps its times, so that nothing is written for it."""
        remove_from_others(managed, fieldset.union(self.changed, self.removed), keep=self.me)
        is_unchanged = _json_equal(self.live, merged)
        mine = managed.pop(self.me)
        fields = fieldset.difference(mine.fields, UNTRACKED_FIELDS)
        if fields:
            managed[self.me] = ManagedFieldSet(fields, self.api_version, mine.time if is_unchanged else now)
        meta = dict(merged.get("metadata") or {})
        meta.pop("managedFields", None)
        entries = encode(managed)
        if entries:
            meta["managedFields"] = entries
        return {**merged, "metadata": meta}


def _live_managed_fields(
    live: Object | None, me: FieldManager, api_version: str, schema: TypeSchema, now: str, reset: FieldSet | None
) -> ManagedFields:
    if live is None:
        return {}
    try:
        managed = decode(stored_entries(live), schema)
    except ValueError as error:
        raise BadRequest(f"failed to decode managed fields: {error}") from error
    if not managed:
        changed, _ = changed_fields(None, live, schema.root, reset)
        assign_to_manager(
            managed, FieldManager(BEFORE_FIRST_APPLY, "Update", api_version, me.subresource), changed, {}, now
        )
    return managed


def _prune(merged: Object, last: FieldSet, all_fields: FieldSet, node: TypedNode) -> Object:
    """Removes in three steps: drop everything applied last time, add back what any manager owns, then what this manager
    never owned. A struct can only be removed as a whole if the declared parent fields are counted as members.
    """
    last_with_parents = with_parent_fields(last, node)
    merged_fields = _fields_with_parents(merged, node)
    kept = _fields_with_parents(remove_fields(merged, last_with_parents, node), node)
    unowned = fieldset.difference(merged_fields, fieldset.union(kept, with_parent_fields(all_fields, node)))
    kept = _fields_with_parents(remove_fields(merged, unowned, node), node)
    to_remove = fieldset.intersection(fieldset.difference(merged_fields, kept), last_with_parents)
    remainder = remove_fields(merged, to_remove, node, MISSING)
    return remainder if type(remainder) is dict else {}


def _fields_with_parents(obj: Any, node: TypedNode) -> FieldSet:
    return with_parent_fields(applied_fields(obj, node) or {}, node)


def _check_config(live: Object | None, config: Object, api_version: str, node: TypedNode) -> None:
    kind = config.get("kind", "")
    if config.get("apiVersion") != api_version or (live and live.get("kind", kind) != kind):
        raise BadRequest(f"invalid object type: {_format_gvk(config.get('apiVersion', ''), kind)}")
    meta = config.get("metadata")
    if isinstance(meta, dict) and meta.get("managedFields") is not None:
        raise BadRequest("metadata.managedFields must be nil")
    errors = typed_errors(config, node)
    if errors:
        message = errors[0] if len(errors) == 1 else "\n  ".join(["errors:", *errors])
        raise BadRequest(f"failed to create typed patch object ({_describe_object(config, api_version)}): {message}")


def _drop_last_applied_conflicts(conflicts: Conflicts, live: Object, api_version: str, node: TypedNode) -> Conflicts:
    """The same tool may take over fields that client-side apply still holds unchanged."""
    allowed = lastapplied.last_applied_fields(live, api_version, node)
    remaining = {who: fieldset.difference(fields, allowed) for who, fields in conflicts.items()}
    return {who: fields for who, fields in remaining.items() if fields}


def _conflict_error(conflicts: Conflicts) -> Conflict:
    managers = sorted(conflicts, key=lambda who: who.sort_key)
    conflicting = [(_format_manager(who), path) for who in managers for path in fieldset.path_strings(conflicts[who])]
    causes = [Cause("FieldManagerConflict", f"conflict with {name}", path) for name, path in conflicting]
    if len(conflicting) == 1:
        name, path = conflicting[0]
        return Conflict(f"Apply failed with 1 conflict: conflict with {name}: {path}", causes=causes)
    lines: list[str] = []
    for who in managers:
        lines.append(f"conflicts with {_format_manager(who)}:")
        lines += [f"- {path}" for path in fieldset.path_strings(conflicts[who])]
    return Conflict(f"Apply failed with {len(conflicting)} conflicts: " + "\n".join(lines), causes=causes)


def _format_manager(who: FieldManager) -> str:
    text = fieldset.go_quote(who.name)
    if who.subresource:
        text += f" with subresource {fieldset.go_quote(who.subresource)}"
    return f"{text} using {who.api_version}" if who.operation == "Update" else text


def _format_gvk(api_version: object, kind: object) -> str:
    version = str(api_version)
    return f"{version if '/' in version else '/' + version}, Kind={kind}"


def _describe_object(config: Object, api_version: str) -> str:
    meta = config.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    return f"{meta.get('namespace', '')}/{meta.get('name', '')}; {_format_gvk(api_version, config.get('kind', ''))}"


def _without_null_time(config: Object) -> Object:
    """Clients print `creationTimestamp: null` into every manifest. It must not count as a change."""
    meta = config.get("metadata")
    if isinstance(meta, dict) and meta.get("creationTimestamp", MISSING) is None:
        return {**config, "metadata": {key: value for key, value in meta.items() if key != "creationTimestamp"}}
    return config


def _json_equal(one: Any, two: Any) -> bool:
    """Equality that distinguishes `true` from `1`."""
    if type(one) is dict and type(two) is dict:
        return one.keys() == two.keys() and all(_json_equal(value, two[key]) for key, value in one.items())
    if type(one) is list and type(two) is list:
        return len(one) == len(two) and all(map(_json_equal, one, two))
    return bool(one == two) and (type(one) is bool) == (type(two) is bool)
