"""The interface between hub and worker: messages to a worker, and its reports.

Messages are level-triggered: each carries the whole desired state and a version that orders it. They may arrive twice,
late, or only the last of many. A deletion is a message too; silence is not one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from shoal.kinds.fleet import infrav1
from shoal.objects.errors import ShoalError

Object = dict[str, Any]
Name = tuple[str, str]
"""Namespace and name of a ManagedCluster, the same at the hub and at the worker."""

TYPE_PREFIX = "dev.shoal.managedcluster."
PUT, DELETED, RELEASED = TYPE_PREFIX + "put", TYPE_PREFIX + "deleted", TYPE_PREFIX + "released"
"""Types that the hub sends, as CloudEvents names them. Deleted: everything has to be deleted. Released: it is no longer
assigned to this worker, which deletes nothing.
"""


@dataclass(frozen=True, slots=True)
class MessageVersion:
    """The version of a message: which object, which state of it, which assignment to a worker."""

    uid: str
    generation: int
    epoch: int
    revision: int
    """Revision of the hub's store: one sequence for all its objects."""


@dataclass(frozen=True, slots=True)
class BusMessage:
    """The desired state of one ManagedCluster for a worker."""

    name: Name
    version: MessageVersion
    deleting: bool
    """Tombstone: everything has to be deleted, then the worker acknowledges."""
    managed: Object = field(compare=False)
    time: str = field(default="", compare=False)
    """When it was sent or received; for people only. The version decides which message is older."""

    @property
    def type(self) -> str:
        return DELETED if self.deleting else PUT

    @property
    def subject(self) -> str:
        return "/".join(self.name)

    @property
    def id(self) -> str:
        return message_id(self.version, self.type)


@dataclass(frozen=True, slots=True)
class StatusReport:
    """What a worker reports about a ManagedCluster it hosts."""

    status: Object
    """The whole status, built from the one in the message."""
    kubeconfig: str = ""
    """Published before the status; empty if there is none yet."""
    verify_kubeconfig: bool = False
    """Check that the hub still has the kubeconfig, even if the status has not changed."""


MessageHandler = Callable[[Name], None]
"""Called when there is news about that ManagedCluster."""


class Bus(Protocol):
    @property
    def is_live(self) -> bool:
        """The link is up and the cache is current. While it is not, nothing needs to be reported: when it is again,
        handlers are called for everything.
        """

    def lag_seconds(self) -> float:
        """Seconds since when nothing can have been received from the hub."""

    def add_event_handler(self, handler: MessageHandler) -> None: ...

    async def run(self) -> None:
        """Receives messages, forever."""

    def latest(self, name: Name) -> BusMessage | None:
        """None: nothing is known. That is no reason to delete anything."""

    async def hub_id(self) -> str:
        """Id of the hub: another store is another hub, whatever its address."""

    async def report(self, message: BusMessage, report: StatusReport) -> None:
        """Fails with a Conflict when the hub is ahead of the message."""

    async def acknowledge(self, message: BusMessage) -> None:
        """Confirms that nothing of it is left here: the hub may delete it."""


class KubeconfigSecretConflict(ShoalError):
    """The hub has another object with the name that the report needs."""


def message_id(version: MessageVersion, type_: str) -> str:
    """The same for the same event sent twice, over either bus."""
    return f"{version.uid}.{version.epoch}.{version.revision}.{type_.removeprefix(TYPE_PREFIX)}"


def message_of(managed: Object, time: str = "") -> BusMessage:
    metadata = managed["metadata"]
    version = MessageVersion(
        metadata["uid"], int(metadata.get("generation", 0)), infrav1.epoch(managed), int(metadata["resourceVersion"])
    )
    return BusMessage(
        (metadata.get("namespace", ""), metadata["name"]), version, "deletionTimestamp" in metadata, managed, time
    )
