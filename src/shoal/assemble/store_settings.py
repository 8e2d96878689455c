"""Which store a server is to open, and what opening it gives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # a store brings the event loop with it, which the help of a command does not need
    from shoal.store.backup.snapshot import OpenSnapshot
    from shoal.store.interface import Store

SECRETS = ("core/secrets",)


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
    encryption_key_file: str = ""
    """Empty: nothing is encrypted."""
    encrypted_kinds: tuple[str, ...] = SECRETS
    """As keys of the store begin."""

    @property
    def sealing(self) -> StoreSettings:
        """Of another store of this machine that is to be encrypted in the same way."""
        return StoreSettings(encryption_key_file=self.encryption_key_file, encrypted_kinds=self.encrypted_kinds)


class Notes(Protocol):
    """What the servers of one store share besides its content."""

    async def note(self, name: str) -> bytes | None: ...

    async def keep_note(self, name: str, value: bytes) -> bytes: ...

    async def change_note(self, name: str, value: bytes, before: bytes) -> bool: ...


@dataclass(slots=True)
class Opened:
    store: Store
    close: Callable[[], Awaitable[None]]
    snapshot: OpenSnapshot
    """Values are as the store has them, sealed ones sealed."""
    notes: Notes | None = None
    shared: bool = False
    """Other servers may be on it."""
