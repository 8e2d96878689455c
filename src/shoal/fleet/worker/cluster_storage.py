"""Access to the worker's own store, below its API: the entries of a hosted cluster, byte for byte.

Controllers see the API only. A cluster that migrates has to keep uids, times and field owners, which an API sets
itself. The composition of a worker implements this interface.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ClusterContents:
    """All entries of a hosted cluster at one revision, including its copy."""

    revision: int
    entries: Mapping[str, bytes]
    """Keys and values of the store."""
    templates: Mapping[str, bytes] = field(default_factory=dict)
    """Machine templates that all hosted clusters of its namespace share."""


@dataclass(frozen=True, slots=True)
class StoreChange:
    cluster: str
    """The hosted cluster; empty: a machine template that all hosted clusters of its namespace share."""
    key: str
    value: bytes | None
    """None: it is deleted."""
    revision: int


ChangeHandler = Callable[[Sequence[StoreChange]], None]


class ClusterStorage(Protocol):
    @property
    def unsupported_reason(self) -> str:
        """Why this store can neither take in a cluster nor guarantee that a checked write is done right away; empty if
        it can.
        """

    @property
    def revision(self) -> int: ...

    @property
    def token_keys(self) -> tuple[str, ...]:
        """Public keys of tokens that were issued here before clusters had keys of their own."""

    def has(self, key: str) -> bool:
        """True if that object of root exists."""

    def contents(self, hosted: str) -> ClusterContents: ...

    def set_change_handler(self, handler: ChangeHandler) -> None:
        """Replaces the handler. It is called for every change of a hosted cluster or of a shared machine template, once
        it is durable, in order.
        """

    async def flush(self) -> None:
        """Waits until everything accepted before is durable and was delivered to the handler."""

    async def replace(
        self, hosted: str, entries: Mapping[str, bytes], min_revision: int = 0, templates: Mapping[str, bytes] = {}
    ) -> int:
        """Replaces all entries of a hosted cluster, at revisions above `min_revision`; no entries: it is deleted.
        Creates the shared machine templates that do not exist. Atomic.
        """

    async def wait_for_informers(self) -> None:
        """Waits until the controllers beside the server have received everything so far."""
