"""What the hub said last of a ManagedCluster, kept with its copy: a worker that is started anew need not ask. Pure.

It is a memory and nothing else: whoever has forgotten is told anew. So it is written when the hub has been calm for a
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
"""Bytes; a larger one is not kept, and asked for again."""


def recalled(copy: Object, hub: str) -> Message | None:
    """None: nothing is known for certain of that hub's object."""
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
    """The patch of a copy that needs no other change. None: it is remembered, or not to be."""
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
