"""Messages as CloudEvents 1.0, in the structured JSON mode. Pure.

The version travels in extension attributes. A CloudEvents Integer has 32 bits, so the hub's revision is a String.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson

from shoal.fleet.bus import subjects
from shoal.fleet.bus.interface import DELETED as DELETED
from shoal.fleet.bus.interface import PUT as PUT
from shoal.fleet.bus.interface import RELEASED as RELEASED
from shoal.fleet.bus.interface import TYPE_PREFIX, BusMessage, MessageVersion, Name, message_id, message_of

Object = dict[str, Any]

STATUS, DELETED_ACK = TYPE_PREFIX + "status", TYPE_PREFIX + "gone"
"""Types that a worker sends. Gone: nothing is left of what was deleted."""
HUB_TYPES, WORKER_TYPES = (PUT, DELETED, RELEASED), (STATUS, DELETED_ACK)

CONTENT_TYPE = "application/cloudevents+json"
_TYPE, _UID, _GENERATION, _EPOCH, _REVISION = (
    f"Shoal-{each}" for each in ("Type", "Uid", "Generation", "Epoch", "Revision")
)


@dataclass(frozen=True, slots=True)
class BusEvent:
    type: str
    hub: str
    worker: str
    name: Name
    version: MessageVersion
    data: Object | None = field(default=None, compare=False)
    """The ManagedCluster, or its status."""
    time: str = field(default="", compare=False)

    @property
    def subject(self) -> str:
        channel = subjects.CLUSTERS if self.type in HUB_TYPES else subjects.STATUS
        return subjects.cluster_subject(self.hub, channel, self.worker, self.name)

    def to_message(self) -> BusMessage:
        """Converts an event of the hub to a BusMessage."""
        return BusMessage(self.name, self.version, self.type == DELETED, self.data or {}, self.time)


def event_from_watch(watch_type: str, managed: Object, hub: str, worker: str, time: str) -> BusEvent:
    """Converts an event of the Kubernetes watch. DELETED refers to the field selector: the object is gone, or belongs
    to another worker.
    """
    message = message_of(managed, time)
    type_ = RELEASED if watch_type == "DELETED" else message.type
    return BusEvent(type_, hub, worker, message.name, message.version, None if type_ == RELEASED else managed, time)


def encode_event(event: BusEvent, time: str) -> bytes:
    version, event_key = event.version, message_id(event.version, event.type)
    source = f"/hubs/{event.hub}" + ("" if event.type in HUB_TYPES else f"/workers/{event.worker}")
    envelope: Object = {
        "specversion": "1.0",
        # A worker may send different reports about one revision of the hub.
        "id": event_key if event.type in HUB_TYPES else f"{event_key}.{time}",
        "source": source,
        "type": event.type,
        "subject": "/".join(event.name),
        "time": time,
        "hub": event.hub,
        "worker": event.worker,
        "uid": version.uid,
        "generation": version.generation,
        "epoch": version.epoch,
        "revision": str(version.revision),
    }
    if event.data is not None:
        envelope |= {"datacontenttype": "application/json", "data": event.data}
    return orjson.dumps(envelope)


def decode_event(subject: str, text: bytes) -> BusEvent:
    """Decodes the message of a subject. Raises ValueError if it cannot be trusted: a worker can only be restricted to
    the subjects it may publish under, so the envelope has to match the subject.
    """
    try:
        envelope = orjson.loads(text)
        namespace, name = envelope["subject"].split("/")
        version = MessageVersion(
            str(envelope["uid"]), int(envelope["generation"]), int(envelope["epoch"]), int(envelope["revision"])
        )
        event = BusEvent(
            envelope["type"],
            envelope["hub"],
            envelope["worker"],
            (namespace, name),
            version,
            envelope.get("data"),
            str(envelope.get("time") or ""),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ValueError("not a CloudEvent of Shoal") from None
    if envelope.get("specversion") != "1.0" or event.type not in (*HUB_TYPES, *WORKER_TYPES):
        raise ValueError(f"unsupported CloudEvent: specversion {envelope.get('specversion')}, type {event.type}")
    if event.subject != subject:
        raise ValueError(f"the envelope has subject {event.subject}")
    if event.type in (PUT, DELETED, STATUS) and not isinstance(event.data, dict):
        raise ValueError("the event has no data")
    return event


def event_headers(event: BusEvent) -> dict[str, str]:
    """Headers from which a publisher knows what it has sent without reading the payload."""
    version = event.version
    return {
        "Content-Type": CONTENT_TYPE,
        _TYPE: event.type,
        _UID: version.uid,
        _GENERATION: str(version.generation),
        _EPOCH: str(version.epoch),
        _REVISION: str(version.revision),
    }


def version_from_headers(message_headers: dict[str, str]) -> tuple[str, MessageVersion] | None:
    """Returns type and version; None if the message is not one of Shoal's."""
    try:
        numbers = (int(message_headers[key]) for key in (_GENERATION, _EPOCH, _REVISION))
        return message_headers[_TYPE], MessageVersion(message_headers[_UID], *numbers)
    except (KeyError, ValueError):
        return None
