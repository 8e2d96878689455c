"""The last message about a ManagedCluster, saved with its copy, so that a restarted worker need not fetch it. Pure.

It is only a cache: a message that was not saved is fetched again. So it is written when the hub has been quiet for a
while, not with every message.
"""

from __future__ import annotations

from typing import Any

import orjson

from shoal.fleet.bus.decide import is_stale
from shoal.fleet.bus.interface import BusMessage, message_of
from shoal.fleet.worker.subscriber.decide import hub_id_of, version_annotations, version_of
from shoal.kinds.fleet import infrav1

Object = dict[str, Any]

HUB_OBJECT_ANNOTATION = "shoal.dev/hub-object"
"""Annotation of the copy: the hub's object, without its managedFields."""
CALM_SECONDS = 30.0
MAX_OBJECT_BYTES = 64 * 1024
"""Bytes; a larger object is not saved, and is fetched again."""


def saved_message(copy: Object, hub_id: str) -> BusMessage | None:
    """Returns the saved message; None if nothing is certain about that hub's object."""
    text = (copy["metadata"].get("annotations") or {}).get(HUB_OBJECT_ANNOTATION)
    if not text or hub_id_of(copy) != hub_id or infrav1.is_deleting(copy):
        return None
    try:
        message = message_of(orjson.loads(text))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    metadata = copy["metadata"]
    is_current = message.version == version_of(copy) and message.name == (
        metadata.get("namespace", ""),
        metadata["name"],
    )
    return message if is_current else None


def save_patch(message: BusMessage, copy: Object, hub_id: str) -> Object | None:
    """Returns the patch that saves the message in a copy without other changes; None if it is saved already, or is not
    to be.
    """
    if message.deleting or infrav1.is_deleting(copy) or saved_message(copy, hub_id) == message:
        return None
    if hub_id_of(copy) != hub_id or is_stale(version_of(copy), message.version):
        return None
    metadata = {key: value for key, value in message.managed["metadata"].items() if key != "managedFields"}
    text = orjson.dumps({**message.managed, "metadata": metadata}).decode()
    if len(text) > MAX_OBJECT_BYTES:
        return None
    new_annotations = {**version_annotations(message.version, hub_id), HUB_OBJECT_ANNOTATION: text}
    return {"metadata": {"annotations": new_annotations, "resourceVersion": copy["metadata"]["resourceVersion"]}}
