"""The last message about a ManagedCluster, saved with its copy, so that a restarted worker need not fetch it. Pure.

It is only a cache: a message that was not saved is fetched again. So it is written when the hub has been quiet for a
while, not with every message.
"""

from __future__ import annotations

from typing import Any

import orjson

from shoal.fleet.bus.decide import is_stale
from shoal.fleet.bus.interface import Message, message_of
from shoal.fleet.worker.subscriber.decide import annotations_of, hub_of, mark_of
from shoal.kinds import fleet

Object = dict[str, Any]

OBJECT = "shoal.dev/hub-object"
"""Annotation of the copy: the hub's object, without its managedFields."""
CALM_SECONDS = 30.0
LARGEST = 64 * 1024
"""Bytes; a larger object is not saved, and is fetched again."""


def recalled(copy: Object, hub: str) -> Message | None:
    """Returns the saved message; None if nothing is certain about that hub's object."""
    text = (copy["metadata"].get("annotations") or {}).get(OBJECT)
    if not text or hub_of(copy) != hub or fleet.is_deleting(copy):
        return None
    try:
        message = message_of(orjson.loads(text))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    metadata = copy["metadata"]
    same = message.mark == mark_of(copy) and message.name == (metadata.get("namespace", ""), metadata["name"])
    return message if same else None


def remembering(message: Message, copy: Object, hub: str) -> Object | None:
    """Returns the patch that saves the message in a copy without other changes; None if it is saved already, or is not
    to be.
    """
    if message.deleting or fleet.is_deleting(copy) or recalled(copy, hub) == message:
        return None
    if hub_of(copy) != hub or is_stale(mark_of(copy), message.mark):
        return None
    metadata = {key: value for key, value in message.managed["metadata"].items() if key != "managedFields"}
    text = orjson.dumps({**message.managed, "metadata": metadata}).decode()
    if len(text) > LARGEST:
        return None
    annotations = {**annotations_of(message.mark, hub), OBJECT: text}
    return {"metadata": {"annotations": annotations, "resourceVersion": copy["metadata"]["resourceVersion"]}}
