"""The configuration of a store, and the result of opening it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # a store imports the event loop, which the help of a command does not need
    from shoal.store.backup.snapshot import OpenSnapshot
    from shoal.store.interface import Store

SECRETS = ("core/secrets",)


@dataclass(frozen=True, slots=True)
class StoreSettings:
    kind: str = "sqlite"
    """sqlite or etcd."""
    servers: tuple[str, ...] = ()
    """Endpoints of an etcd cluster; empty: a local etcd is started and supervised."""
    prefix: str = "/shoal"
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    username: str = ""
    password: str = ""
    encryption_key_file: str = ""
    """Empty: nothing is encrypted."""
    encrypted_kinds: tuple[str, ...] = SECRETS
    """Key prefixes of the store."""

    @property
    def sealing(self) -> StoreSettings:
        """The same encryption for another store of this machine."""
        return StoreSettings(encryption_key_file=self.encryption_key_file, encrypted_kinds=self.encrypted_kinds)


class Notes(Protocol):
    """Metadata that the servers of one store share besides its content."""

    async def note(self, name: str) -> bytes | None: ...

    async def keep_note(self, name: str, value: bytes) -> bytes: ...

    async def change_note(self, name: str, value: bytes, before: bytes) -> bool: ...


@dataclass(slots=True)
class Opened:
    store: Store
    close: Callable[[], Awaitable[None]]
    snapshot: OpenSnapshot
    """Values are as the store has them; encrypted values stay encrypted."""
    notes: Notes | None = None
    shared: bool = False
    """Other servers may use it."""
