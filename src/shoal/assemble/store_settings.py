"""Which store a server is to open, and what opening it gives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from shoal.store.interface import Store


@dataclass(frozen=True, slots=True)
class StoreSettings:
    kind: str = "sqlite"
    """sqlite or etcd."""
    servers: tuple[str, ...] = ()
    """Of an etcd cluster; none: a local one is started and supervised."""
    prefix: str = "/shoal"
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    username: str = ""
    password: str = ""


class Notes(Protocol):
    """What the servers of one store share besides its content."""

    async def note(self, name: str) -> bytes | None: ...

    async def keep_note(self, name: str, value: bytes) -> bytes: ...


@dataclass(slots=True)
class Opened:
    store: Store
    close: Callable[[], Awaitable[None]]
    notes: Notes | None = None
    shared: bool = False
    """Other servers may be on it."""
