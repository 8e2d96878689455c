"""Messages as CloudEvents 1.0, in the structured JSON mode. Pure.

The version travels in extension attributes. A CloudEvents Integer has 32 bits, so the hub's revision is a String.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson

from shoal.fleet.bus import subjects
from shoal.fleet.bus.interface import DELETED as DELETED
from shoal.fleet.bus.interface import PREFIX, Mark, Message, Name, event_id, message_of
from shoal.fleet.bus.interface import PUT as PUT
from shoal.fleet.bus.interface import RELEASED as RELEASED

Object = dict[str, Any]

STATUS, GONE = PREFIX + "status", PREFIX + "gone"
"""Types that a worker sends. Gone: nothing is left of what was deleted."""
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
    time: str = field(default="", compare=False)

    @property
    def subject(self) -> str:
        channel = subjects.CLUSTERS if self.type in OF_HUB else subjects.STATUS
        return subjects.of_cluster(self.hub, channel, self.worker, self.name)

    def message(self) -> Message:
        """Converts an event of the hub to a BusMessage."""
        return Message(self.name, self.mark, self.type == DELETED, self.data or {}, self.time)


def of_watch(kind: str, managed: Object, hub: str, worker: str, time: str) -> Event:
    """Converts an event of the Kubernetes watch. DELETED refers to the field selector: the object is gone, or belongs
    to another worker.
    """
    message = message_of(managed, time)
    type_ = RELEASED if kind == "DELETED" else message.type
    return Event(type_, hub, worker, message.name, message.mark, None if type_ == RELEASED else managed, time)


def encode(event: Event, time: str) -> bytes:
    mark, id_ = event.mark, event_id(event.mark, event.type)
    source = f"/hubs/{event.hub}" + ("" if event.type in OF_HUB else f"/workers/{event.worker}")
    envelope: Object = {
        "specversion": "1.0",
        # A worker may send different reports about one revision of the hub.
        "id": id_ if event.type in OF_HUB else f"{id_}.{time}",
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
    """Decodes the message of a subject. Raises ValueError if it cannot be trusted: a worker can only be restricted to
    the subjects it may publish under, so the envelope has to match the subject.
    """
    try:
        said = orjson.loads(text)
        namespace, name = said["subject"].split("/")
        mark = Mark(str(said["uid"]), int(said["generation"]), int(said["epoch"]), int(said["revision"]))
        event = Event(
            said["type"],
            said["hub"],
            said["worker"],
            (namespace, name),
            mark,
            said.get("data"),
            str(said.get("time") or ""),
        )
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
    """Headers from which a publisher knows what it has sent without reading the payload."""
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
    """Returns type and version; None if the message is not one of Shoal's."""
    try:
        numbers = (int(found[key]) for key in (_GENERATION, _EPOCH, _REVISION))
        return found[_TYPE], Mark(found[_UID], *numbers)
    except (KeyError, ValueError):
        return None
