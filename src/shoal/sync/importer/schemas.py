"""Stores the schemas that imports refer to: each once, by its digest, as long as an import refers to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from shoal.client.requests import Client
from shoal.objects.errors import AlreadyExists, NotFound
from shoal.sync.importer.decide import Offer, stored
from shoal.sync.resources import SCHEMAS

Object = dict[str, Any]


class Stored:
    def __init__(self, client: Client, imports: Callable[[], Iterable[Object]], *, keeper: bool) -> None:
        """`imports` returns all existing imports. `collects_garbage`: this process deletes unreferenced schemas; only
        one may.
        """
        self._client, self._imports, self._keeper = client, imports, keeper
        self._there: set[str] = set()
        self._in_use: Counter[str] = Counter()
        self._left: set[str] = set()
        self._looked = False

    @contextmanager
    def using(self, digests: Iterable[str]) -> Iterator[None]:
        """Protects the schemas while imports that refer to them are written."""
        mine = Counter(digests)
        self._in_use += mine
        try:
            yield
        finally:
            self._in_use -= mine

    async def keep(self, offer: Offer) -> None:
        if offer.digest not in self._there:
            with suppress(AlreadyExists):
                await self._client.create(SCHEMAS, stored(offer), brief=True)
            self._there.add(offer.digest)

    def forget(self, digest: str) -> bool:
        """The schema does not exist after all. Returns whether it was believed to."""
        known = digest in self._there
        self._there.discard(digest)
        return known

    def left(self, digest: str) -> None:
        """An import no longer refers to the schema."""
        if digest:
            self._left.add(digest)

    async def sweep(self) -> None:
        """Deletes schemas that no import refers to any more."""
        if not self._keeper:
            return
        if not self._looked:
            found, _ = await self._client.list_all(SCHEMAS)  # unreferenced since before this process started
            self._left.update(obj["metadata"]["name"] for obj in found)
            self._looked = True
        if not self._left:
            return
        left, self._left = self._left, set()
        referred = {found["spec"].get("schemaDigest", "") for found in self._imports()}
        for digest in [one for one in left if one not in referred and not self._in_use[one]]:
            self._there.discard(digest)
            with suppress(NotFound):
                await self._client.delete(SCHEMAS, digest, brief=True)
