"""The latest message about each ManagedCluster, whichever bus delivered it, and the handlers to notify."""

from __future__ import annotations

from shoal.fleet.bus.decide import is_stale
from shoal.fleet.bus.envelope import RELEASED, Event
from shoal.fleet.bus.interface import Mark, Message, Name, Told


class Inbox:
    def __init__(self) -> None:
        self._listeners: list[Told] = []
        self._marks: dict[Name, Mark] = {}
        """Also of released ones: older messages may still arrive."""
        self.messages: dict[Name, Message] = {}

    def listen(self, told: Told) -> None:
        self._listeners.append(told)

    def take(self, event: Event) -> None:
        name = event.name
        if is_stale(self._marks.get(name), event.mark):
            return
        self._marks[name] = event.mark
        if event.type == RELEASED:
            self.messages.pop(name, None)
        else:
            self.messages[name] = event.message()
        self.tell(name)

    def recall(self, message: Message) -> None:
        """Adds a message that was received before this process started."""
        self._marks[message.name] = message.mark
        self.messages[message.name] = message

    def release(self, name: Name) -> None:
        """The hub no longer has it assigned to this worker. This deletes nothing."""
        if self.messages.pop(name, None) is not None:
            self.tell(name)

    def clear(self) -> None:
        """Forgets everything before another hub is followed: versions of two hubs cannot be compared."""
        self._marks.clear()
        for name in list(self.messages):
            self.release(name)

    def tell(self, name: Name) -> None:
        for told in self._listeners:
            told(name)

    def tell_all(self) -> None:
        for name in list(self.messages):
            self.tell(name)
