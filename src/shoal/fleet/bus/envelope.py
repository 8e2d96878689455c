"""Messages as CloudEvents 1.0, in the structured JSON mode. Pure.

The mark travels in extension attributes. A CloudEvents Integer has 32 bits, so the hub's revision is a String.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson

from shoal.fleet.bus import subjects
from shoal.fleet.bus.interface import Mark, Message, Name

Object = dict[str, Any]

_PREFIX = "dev.shoal.managedcluster."
PUT, DELETED, RELEASED = _PREFIX + "put", _PREFIX + "deleted", _PREFIX + "released"
"""Of the hub. Deleted: all of it is to go. Released: it is not this worker's any more, which deletes nothing."""
STATUS, GONE = _PREFIX + "status", _PREFIX + "gone"
"""Of a worker. Gone: nothing is left of what was deleted."""
OF_HUB, OF_WORKER = (PUT, DELETED, RELEASED), (STATUS, GONE)

CONTENT_TYPE = "application/cloudevents+json"
_TYPE, _UID, _GENERATION, _EPOCH, _REVISION = (
    f"Shoal-{each}" for each in ("Type", "Uid", "Generation", "Epoch", "Revision")
)


@dataclass(frozen=True, slots=True)
class Event:
    type: str
    hub: str
    worker: str
    name: Name
    mark: Mark
    data: Object | None = field(default=None, compare=False)
    """The ManagedCluster, or its status."""

    @property
    def subject(self) -> str:
        channel = subjects.CLUSTERS if self.type in OF_HUB else subjects.STATUS
        return subjects.of_cluster(self.hub, channel, self.worker, self.name)

    def message(self) -> Message:
        """Of one that the hub wants something by."""
        return Message(self.name, self.mark, self.type == DELETED, self.data or {})


def encode(event: Event, time: str) -> bytes:
    mark, short = event.mark, event.type.removeprefix(_PREFIX)
    source = f"/hubs/{event.hub}" + ("" if event.type in OF_HUB else f"/workers/{event.worker}")
    envelope: Object = {
        "specversion": "1.0",
        "id": f"{mark.uid}.{mark.epoch}.{mark.revision}.{short}.{time}",
        "source": source,
        "type": event.type,
        "subject": "/".join(event.name),
        "time": time,
        "hub": event.hub,
        "worker": event.worker,
        "uid": mark.uid,
        "generation": mark.generation,
        "epoch": mark.epoch,
        "revision": str(mark.revision),
    }
    if event.data is not None:
        envelope |= {"datacontenttype": "application/json", "data": event.data}
    return orjson.dumps(envelope)


def decode(subject: str, text: bytes) -> Event:
    """What came under a subject. ValueError says why it is not believed: a worker can be held to the subjects it may
    publish under, to nothing else, so the envelope has to say the same."""
    try:
        said = orjson.loads(text)
        namespace, name = said["subject"].split("/")
        mark = Mark(str(said["uid"]), int(said["generation"]), int(said["epoch"]), int(said["revision"]))
        event = Event(said["type"], said["hub"], said["worker"], (namespace, name), mark, said.get("data"))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ValueError("it is no CloudEvent of Shoal") from None
    if said.get("specversion") != "1.0" or event.type not in (*OF_HUB, *OF_WORKER):
        raise ValueError(f"it is a CloudEvent {said.get('specversion')} of the unknown type {event.type}")
    if event.subject != subject:
        raise ValueError(f"its envelope says {event.subject}")
    if event.type in (PUT, DELETED, STATUS) and not isinstance(event.data, dict):
        raise ValueError("it has no data")
    return event


def headers(event: Event) -> dict[str, str]:
    """By which a publisher knows what it has sent without reading all of it."""
    mark = event.mark
    return {
        "Content-Type": CONTENT_TYPE,
        _TYPE: event.type,
        _UID: mark.uid,
        _GENERATION: str(mark.generation),
        _EPOCH: str(mark.epoch),
        _REVISION: str(mark.revision),
    }


def of_headers(found: dict[str, str]) -> tuple[str, Mark] | None:
    """Type and mark. None: the message is not ours."""
    try:
        numbers = (int(found[key]) for key in (_GENERATION, _EPOCH, _REVISION))
        return found[_TYPE], Mark(found[_UID], *numbers)
    except (KeyError, ValueError):
        return None
