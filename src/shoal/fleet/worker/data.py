"""The seam to the worker's own store, below its API: what a hosted cluster is made of, byte for byte.

Loops see the API only; a cluster that moves has to keep uids, times and whoever owns which field, and those an API
sets itself. Who puts a worker together gives this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Contents:
    """All of a hosted cluster at one revision, its copy included."""

    revision: int
    entries: Mapping[str, bytes]
    """Keys and values of the store."""


@dataclass(frozen=True, slots=True)
class Changed:
    hosted: str
    key: str
    value: bytes | None
    """None: it is deleted."""
    revision: int


Told = Callable[[Sequence[Changed]], None]


class Data(Protocol):
    @property
    def refuses(self) -> str:
        """Why this store can neither take in a cluster, nor promise that a write is done when it was judged; empty:
        it can."""

    @property
    def revision(self) -> int: ...

    @property
    def token_key(self) -> str:
        """The public key of the tokens that are issued here."""

    def has(self, key: str) -> bool:
        """Of an object of root."""

    def contents(self, hosted: str) -> Contents: ...

    def follow(self, told: Told) -> None:
        """From now on, in place of who was told before: of every change of a hosted cluster, once it is durable, in
        order."""

    async def settled(self) -> None:
        """Everything accepted before is durable, and was told."""

    async def replace(self, hosted: str, entries: Mapping[str, bytes], above: int = 0) -> int:
        """All of a hosted cluster is these now, at revisions above that one; nothing: it is gone. All or nothing."""

    async def heard(self) -> None:
        """The loops beside the server have been told of everything so far."""
