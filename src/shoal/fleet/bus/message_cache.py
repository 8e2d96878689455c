"""The latest message about each ManagedCluster, whichever bus delivered it, and the handlers to notify."""

from __future__ import annotations

from shoal.fleet.bus.cloudevents import RELEASED, BusEvent
from shoal.fleet.bus.decide import is_stale
from shoal.fleet.bus.interface import BusMessage, MessageHandler, MessageVersion, Name


class MessageCache:
    def __init__(self) -> None:
        self._handlers: list[MessageHandler] = []
        self._versions: dict[Name, MessageVersion] = {}
        """Also of released ones: older messages may still arrive."""
        self.messages: dict[Name, BusMessage] = {}

    def add_event_handler(self, handler: MessageHandler) -> None:
        self._handlers.append(handler)

    def apply(self, event: BusEvent) -> None:
        name = event.name
        if is_stale(self._versions.get(name), event.version):
            return
        self._versions[name] = event.version
        if event.type == RELEASED:
            self.messages.pop(name, None)
        else:
            self.messages[name] = event.to_message()
        self.notify(name)

    def restore(self, message: BusMessage) -> None:
        """Adds a message that was received before this process started."""
        self._versions[message.name] = message.version
        self.messages[message.name] = message

    def release(self, name: Name) -> None:
        """The hub no longer has it assigned to this worker. This deletes nothing."""
        if self.messages.pop(name, None) is not None:
            self.notify(name)

    def clear(self) -> None:
        """Forgets everything before another hub is followed: versions of two hubs cannot be compared."""
        self._versions.clear()
        for name in list(self.messages):
            self.release(name)

    def notify(self, name: Name) -> None:
        for handler in self._handlers:
            handler(name)

    def notify_all(self) -> None:
        for name in list(self.messages):
            self.notify(name)
