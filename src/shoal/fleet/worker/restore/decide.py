"""Adapts the entries of a log to the worker that restores it, and builds the restore status. Pure.

Everything stays as it was except three objects: the copy names the message it follows; the logical cluster names the
token keys it accepts and the revisions that are from before; and the log's own annotations are not carried over. Shared
machine templates lose their owners and finalizers, which are of the other worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from shoal.fleet.bus.interface import BusMessage
from shoal.fleet.worker.cluster_keys import (
    ROOT,
    TEMPLATES_PREFIX,
    copy_key,
    hosted_cluster_of,
    is_shared_template,
    logical_cluster_key,
)
from shoal.fleet.worker.replication.decide import RESTORED_LOG_ANNOTATION
from shoal.fleet.worker.replication.segments import LogCorrupted, ReplayedState
from shoal.fleet.worker.subscriber.decide import new_copy, version_of
from shoal.kinds.clusterapi import embedded
from shoal.kinds.fleet import infrav1, migration
from shoal.kinds.fleet.logicalcluster import RESTORED_REVISION_ANNOTATION, TOKEN_KEYS_ANNOTATION
from shoal.objects.conditions import set_condition

Object = dict[str, Any]

RESTORING = "Restoring"
TOMBSTONE = b"-"
"""Stored in place of a bootstrap object that was deleted."""
REVISION_MARGIN = 10_000_000
"""Revisions that are skipped: the lost worker may have assigned some that it could no longer report."""


def is_obsolete_copy(message: BusMessage, copy: Object) -> bool:
    """True if it is to be deleted, and the copy is from before other workers had it: it was never restored here."""
    version = version_of(copy)
    is_earlier = version.uid == message.version.uid and version.epoch < message.version.epoch
    return message.deleting and is_earlier and bool(migration.restore_source(message.managed))


def restore_revision(state: ReplayedState, local_revision: int) -> int:
    """Returns the revision above which everything is written: neither worker has assigned that many."""
    return max(state.revision, local_revision) + REVISION_MARGIN


def adapt_entries(
    state: ReplayedState, message: BusMessage, hub: str, min_revision: int, log_position: tuple[int, int]
) -> dict[str, bytes]:
    """Returns the entries to store. `log_position` is epoch and first segment of the log."""
    hosted, entries = embedded.logical_cluster_name(*message.name), dict(state.entries)
    copy, logical = copy_key(*message.name), logical_cluster_key(hosted)
    if logical not in entries or copy not in entries:
        raise LogCorrupted("the log has no logical cluster")
    for key, value in entries.items():
        if not is_valid_entry(key, value):
            raise LogCorrupted(f"the log has an invalid entry {key}")
        if key != copy and hosted_cluster_of(key, value) != hosted:
            raise LogCorrupted(f"the log has an entry {key}, which does not belong to this cluster")
    entries[logical] = _adapt_logical_cluster(entries[logical], state, min_revision)
    entries[copy] = _adapt_copy(entries[copy], message, hub, (*log_position, state.last_segment))
    return entries


def adapt_templates(state: ReplayedState, namespace: str) -> dict[str, bytes]:
    """Returns the shared machine templates to store, where they do not exist."""
    prefix = f"{TEMPLATES_PREFIX}{namespace}/"
    for key, value in state.templates.items():
        if not is_valid_entry(key, value) or not key.startswith(prefix) or not is_shared_template(key, value):
            raise LogCorrupted(f"the log has an entry {key}, which is not a machine template shared by this cluster")
    return {key: _without_owners(value) for key, value in state.templates.items()}


def _without_owners(value: bytes) -> bytes:
    obj = orjson.loads(value)
    metadata = {field: of for field, of in obj["metadata"].items() if field not in ("ownerReferences", "finalizers")}
    return orjson.dumps({**obj, "metadata": metadata})


def is_valid_entry(key: str, value: bytes) -> bool:
    """True if a server can serve the entry: another worker wrote it, and is trusted for its own cluster only."""
    parts = key.split("/", 4)
    if len(parts) != 5:
        return False
    if value == TOMBSTONE:
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


def _adapt_logical_cluster(value: bytes, state: ReplayedState, min_revision: int) -> bytes:
    obj = orjson.loads(value)
    annotations_now = {
        RESTORED_REVISION_ANNOTATION: str(min_revision),
        TOKEN_KEYS_ANNOTATION: ",".join(dict.fromkeys(state.token_keys)),
    }
    return _encode_stored(obj, {**(obj["metadata"].get("annotations") or {}), **annotations_now})


def _adapt_copy(value: bytes, message: BusMessage, hub: str, log_position: tuple[int, ...]) -> bytes:
    """Keeps its uid: the Cluster names it as its owner."""
    previous, current = orjson.loads(value), new_copy(message, hub)
    identity = {
        key: previous["metadata"][key]
        for key in ("uid", "creationTimestamp", "generation")
        if key in previous["metadata"]
    }
    annotations_now = {**current["metadata"]["annotations"], RESTORED_LOG_ANNOTATION: "/".join(map(str, log_position))}
    return _encode_stored({**current, "metadata": {**current["metadata"], **identity}}, annotations_now)


def _encode_stored(obj: Object, annotations: Mapping[str, str]) -> bytes:
    """Encodes as the store has objects: annotations first in the metadata."""
    metadata = {"annotations": annotations, **{k: v for k, v in obj["metadata"].items() if k != "annotations"}}
    rest = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata")}
    return orjson.dumps({"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata, **rest})


def with_restored_condition(managed: Object, now: str) -> Object:
    """Returns the ManagedCluster with the Restored condition."""
    if not migration.restore_source(managed):
        return managed
    message = f"restored at revision {migration.restore_source(managed).get('revision')} or later"
    return _with_condition(managed, ("True", migration.RESTORED, message), now)


def restoring_status(managed: Object, now: str) -> Object:
    """Returns the status while it is being restored."""
    condition = ("False", RESTORING, "it is being restored from its log")
    status: Object = _with_condition(_with_condition(managed, condition, now), condition, now, infrav1.READY)["status"]
    return {**status, "phase": infrav1.phase_of({**managed, "status": status})}


def restore_failed_status(managed: Object, reason: str, message: str, now: str) -> Object:
    """Returns the status of a cluster that cannot be restored: no empty one is created in its place."""
    updated = _with_condition(
        _with_condition(managed, ("False", reason, message), now), ("False", reason, message), now, infrav1.READY
    )
    errors = infrav1.append_error(managed, reason, message, now)
    return {**updated["status"], "errors": errors, "phase": infrav1.phase_of(updated)}


def _with_condition(
    managed: Object, condition: tuple[str, str, str], now: str, type_: str = migration.RESTORED
) -> Object:
    status, reason, message = condition
    generation = managed["metadata"].get("generation")
    return set_condition(
        managed, type_, status, reason=reason, message=message, observed_generation=generation, now=now
    )
