"""Adapts the entries of a log to the worker that restores it, and builds the restore status. Pure.

Everything stays as it was except three objects: the copy names the message it follows; the logical cluster names the
token keys it accepts and the revisions that are from before; and the log's own annotations are not carried over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from shoal.fleet.bus.interface import Message
from shoal.fleet.worker.contents import ROOT, copy_key, hosted_of, logical_key
from shoal.fleet.worker.shipping.decide import RESTORED_LOG
from shoal.fleet.worker.shipping.segments import State, Torn
from shoal.fleet.worker.subscriber.decide import copy_of, mark_of
from shoal.kinds import embedded, fleet, moving
from shoal.kinds.logicalcluster import RESTORED_ABOVE, TOKEN_KEYS
from shoal.objects.conditions import set_condition

Object = dict[str, Any]

RESTORING = "Restoring"
HIDDEN = b"-"
"""Stored in place of a bootstrap object that was deleted."""
MARGIN = 10_000_000
"""Revisions that are skipped: the lost worker may have assigned some that it could no longer report."""


def is_left_over(message: Message, copy: Object) -> bool:
    """True if it is to be deleted, and the copy is from before other workers had it: it was never restored here."""
    mark = mark_of(copy)
    earlier = mark.uid == message.mark.uid and mark.epoch < message.mark.epoch
    return message.deleting and earlier and bool(moving.restore_from(message.managed))


def above(state: State, here: int) -> int:
    """Returns the revision above which everything is written: neither worker has assigned that many."""
    return max(state.revision, here) + MARGIN


def adapted(state: State, message: Message, hub: str, above: int, source: tuple[int, int]) -> dict[str, bytes]:
    """Returns the entries to store. `log_position` is epoch and first segment of the log."""
    hosted, entries = embedded.hosted_name(*message.name), dict(state.entries)
    copy, logical = copy_key(*message.name), logical_key(hosted)
    if logical not in entries or copy not in entries:
        raise Torn("the log has no logical cluster")
    for key, value in entries.items():
        if not is_sound(key, value):
            raise Torn(f"the log holds {key}, which is no object as stores have them")
        if key != copy and hosted_of(key, value) != hosted:
            raise Torn(f"the log holds {key}, which is not of this cluster")
    entries[logical] = _logical(entries[logical], state, above)
    entries[copy] = _copy(entries[copy], message, hub, (*source, state.last))
    return entries


def is_sound(key: str, value: bytes) -> bool:
    """True if a server can serve the entry: another worker wrote it, and is trusted for its own cluster only."""
    parts = key.split("/", 4)
    if len(parts) != 5:
        return False
    if value == HIDDEN:
        return parts[2] != ROOT
    try:
        obj = orjson.loads(value)
    except ValueError:
        return False
    if not isinstance(obj, dict) or not {"apiVersion", "kind", "metadata"} <= obj.keys():
        return False
    metadata = obj["metadata"]
    opening = b'{"apiVersion":%b,"kind":%b,"metadata":{' % (orjson.dumps(obj["apiVersion"]), orjson.dumps(obj["kind"]))
    if not value.startswith(opening) or "resourceVersion" in metadata or not isinstance(metadata.get("uid"), str):
        return False
    return (metadata.get("namespace", ""), metadata.get("name")) == (parts[3], parts[4])


def _logical(value: bytes, state: State, above: int) -> bytes:
    obj = orjson.loads(value)
    notes = {RESTORED_ABOVE: str(above), TOKEN_KEYS: ",".join(dict.fromkeys(state.token_keys))}
    return _stored(obj, {**(obj["metadata"].get("annotations") or {}), **notes})


def _copy(value: bytes, message: Message, hub: str, source: tuple[int, ...]) -> bytes:
    """Keeps its uid: the Cluster names it as its owner."""
    old, new = orjson.loads(value), copy_of(message, hub)
    kept = {key: old["metadata"][key] for key in ("uid", "creationTimestamp", "generation") if key in old["metadata"]}
    notes = {**new["metadata"]["annotations"], RESTORED_LOG: "/".join(map(str, source))}
    return _stored({**new, "metadata": {**new["metadata"], **kept}}, notes)


def _stored(obj: Object, annotations: Mapping[str, str]) -> bytes:
    """Encodes as the store has objects: annotations first in the metadata."""
    metadata = {"annotations": annotations, **{k: v for k, v in obj["metadata"].items() if k != "annotations"}}
    rest = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata")}
    return orjson.dumps({"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata, **rest})


def restored(managed: Object, now: str) -> Object:
    """Returns the ManagedCluster with the Restored condition."""
    if not moving.restore_from(managed):
        return managed
    said = f"all of it is here, as of revision {moving.restore_from(managed).get('revision')} or later"
    return _told(managed, ("True", moving.RESTORED, said), now)


def restoring(managed: Object, now: str) -> Object:
    """Returns the status while it is being restored."""
    said = ("False", RESTORING, "it is being restored from its log")
    status: Object = _told(_told(managed, said, now), said, now, fleet.READY)["status"]
    return {**status, "phase": fleet.phase_of({**managed, "status": status})}


def not_restored(managed: Object, reason: str, message: str, now: str) -> Object:
    """Returns the status of a cluster that cannot be restored: no empty one is created in its place."""
    told = _told(_told(managed, ("False", reason, message), now), ("False", reason, message), now, fleet.READY)
    errors = fleet.errors_with(managed, reason, message, now)
    return {**told["status"], "errors": errors, "phase": fleet.phase_of(told)}


def _told(managed: Object, said: tuple[str, str, str], now: str, type_: str = moving.RESTORED) -> Object:
    status, reason, message = said
    generation = managed["metadata"].get("generation")
    return set_condition(
        managed, type_, status, reason=reason, message=message, observed_generation=generation, now=now
    )
