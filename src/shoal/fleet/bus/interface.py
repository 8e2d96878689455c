"""The seam between hub and worker: what a worker is told, and what it says in return.

Messages are levels, not edges: each carries the whole of what is wanted, with the marks that tell an older one from
a newer. They may come twice, late or only the last of many; a deletion is a message too, and silence is not one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from shoal.kinds import fleet
from shoal.objects.errors import ShoalError

Object = dict[str, Any]
Name = tuple[str, str]
"""Namespace and name of a ManagedCluster, the same at the hub and at the worker."""

PREFIX = "dev.shoal.managedcluster."
PUT, DELETED, RELEASED = PREFIX + "put", PREFIX + "deleted", PREFIX + "released"
"""What the hub says, as CloudEvents call it. Deleted: all of it is to go. Released: it is not this worker's any more,
which deletes nothing."""


@dataclass(frozen=True, slots=True)
class Mark:
    """How old a message is: of which object, of which state of it, for which time it was given to a worker."""

    uid: str
    generation: int
    epoch: int
    revision: int
    """Of the hub's store: one line for all its objects."""


@dataclass(frozen=True, slots=True)
class Message:
    """What the hub wants of a worker about one ManagedCluster."""

    name: Name
    mark: Mark
    deleting: bool
    """The tombstone: everything of it is to go, then the worker acknowledges."""
    managed: Object = field(compare=False)
    time: str = field(default="", compare=False)
    """When it was sent, or came: for people only. What is older than what, the mark tells."""

    @property
    def type(self) -> str:
        return DELETED if self.deleting else PUT

    @property
    def subject(self) -> str:
        return "/".join(self.name)

    @property
    def id(self) -> str:
        return event_id(self.mark, self.type)


@dataclass(frozen=True, slots=True)
class Report:
    """What a worker says about a ManagedCluster it hosts."""

    status: Object
    """The whole status, made of the one in the message."""
    kubeconfig: str = ""
    """Published before the status is; empty: there is none yet."""
    verify: bool = False
    """Whether the hub still has the kubeconfig is to be looked at, even if the status says what it said."""


Told = Callable[[Name], None]
"""Called when there is something new about that ManagedCluster."""


class Bus(Protocol):
    @property
    def live(self) -> bool:
        """The link is up, and what is known is the newest. While it is not, nothing needs to be said: when it is again,
        whoever listens is told of everything anew."""

    def listen(self, told: Told) -> None: ...

    async def run(self) -> None:
        """Brings messages, for ever."""

    def newest(self, name: Name) -> Message | None:
        """None: nothing is known. That is no reason to delete anything."""

    async def hub_id(self) -> str:
        """Which hub this is: another store is another hub, whatever its address."""

    async def report(self, message: Message, report: Report) -> None:
        """Refused as a Conflict when the hub is further than the message."""

    async def acknowledge(self, message: Message) -> None:
        """Nothing of it is left here: the hub may forget it."""


class NameTaken(ShoalError):
    """The hub has something else by the name a report needs."""


def event_id(mark: Mark, type_: str) -> str:
    """The same for the same thing said twice, by whichever way."""
    return f"{mark.uid}.{mark.epoch}.{mark.revision}.{type_.removeprefix(PREFIX)}"


def message_of(managed: Object, time: str = "") -> Message:
    metadata = managed["metadata"]
    mark = Mark(
        metadata["uid"], int(metadata.get("generation", 0)), fleet.epoch(managed), int(metadata["resourceVersion"])
    )
    return Message(
        (metadata.get("namespace", ""), metadata["name"]), mark, "deletionTimestamp" in metadata, managed, time
    )
