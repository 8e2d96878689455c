"""Stores the schemas that imports refer to: each once, by its digest, as long as an import refers to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from shoal.client.rest import Client
from shoal.objects.errors import AlreadyExists, NotFound
from shoal.sync.importer.decide import Offer, schema_object
from shoal.sync.resources import SCHEMAS

Object = dict[str, Any]


class SchemaStore:
    def __init__(self, client: Client, imports: Callable[[], Iterable[Object]], *, collects_garbage: bool) -> None:
        """`imports` returns all existing imports. `collects_garbage`: this process deletes unreferenced schemas; only
        one may.
        """
        self._client, self._imports, self._collects_garbage = client, imports, collects_garbage
        self._stored: set[str] = set()
        self._in_use: Counter[str] = Counter()
        self._unreferenced: set[str] = set()
        self._has_listed = False

    @contextmanager
    def hold(self, digests: Iterable[str]) -> Iterator[None]:
        """Protects the schemas while imports that refer to them are written."""
        held = Counter(digests)
        self._in_use += held
        try:
            yield
        finally:
            self._in_use -= held

    async def ensure(self, offer: Offer) -> None:
        if offer.digest not in self._stored:
            with suppress(AlreadyExists):
                await self._client.create(SCHEMAS, schema_object(offer), metadata_only=True)
            self._stored.add(offer.digest)

    def forget(self, digest: str) -> bool:
        """The schema does not exist after all. Returns whether it was believed to."""
        was_stored = digest in self._stored
        self._stored.discard(digest)
        return was_stored

    def mark_unreferenced(self, digest: str) -> None:
        """An import no longer refers to the schema."""
        if digest:
            self._unreferenced.add(digest)

    async def sweep(self) -> None:
        """Deletes schemas that no import refers to any more."""
        if not self._collects_garbage:
            return
        if not self._has_listed:
            objects, _ = await self._client.list_all(SCHEMAS)  # unreferenced since before this process started
            self._unreferenced.update(obj["metadata"]["name"] for obj in objects)
            self._has_listed = True
        if not self._unreferenced:
            return
        unreferenced, self._unreferenced = self._unreferenced, set()
        referenced = {objects["spec"].get("schemaDigest", "") for objects in self._imports()}
        for digest in [each for each in unreferenced if each not in referenced and not self._in_use[each]]:
            self._stored.discard(digest)
            with suppress(NotFound):
                await self._client.delete(SCHEMAS, digest, metadata_only=True)
