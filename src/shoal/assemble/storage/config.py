"""The configuration of a store, and the result of opening it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # a store imports the event loop, which the help of a command does not need
    from shoal.store.backup.snapshot import OpenSnapshot
    from shoal.store.interface import Store

DEFAULT_ENCRYPTED_KINDS = ("core/secrets",)


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
    encrypted_kinds: tuple[str, ...] = DEFAULT_ENCRYPTED_KINDS
    """Key prefixes of the store."""

    @property
    def encryption_only(self) -> StoreSettings:
        """The same encryption for another store of this machine."""
        return StoreSettings(encryption_key_file=self.encryption_key_file, encrypted_kinds=self.encrypted_kinds)


class StoreMetadata(Protocol):
    """Metadata that the servers of one store share besides its content."""

    async def get_metadata(self, name: str) -> bytes | None: ...

    async def put_metadata_if_absent(self, name: str, value: bytes) -> bytes: ...

    async def compare_and_swap_metadata(self, name: str, value: bytes, before: bytes) -> bool: ...


@dataclass(slots=True)
class OpenedStore:
    store: Store
    close: Callable[[], Awaitable[None]]
    open_snapshot: OpenSnapshot
    """Values are as the store has them; encrypted values stay encrypted."""
    metadata: StoreMetadata | None = None
    is_shared: bool = False
    """Other servers may use it."""
