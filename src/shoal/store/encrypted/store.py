"""Store decorator that encrypts values of some kinds on write and decrypts every encrypted value on read.

It is used without keys as well. It then encrypts nothing, and names the missing key when it meets an encrypted value
instead of returning ciphertext. An event that cannot be decrypted ends the server: no event is left out of a watch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from shoal.objects.errors import StoreError
from shoal.store.decorator import StoreDecorator
from shoal.store.encrypted.keys import ENCRYPTED_PREFIX, KeyRing, key_name_of, missing_key_error
from shoal.store.interface import EventHandler, KeyValue, ProgressHandler, Store, StoreEvent, Subscription, WriteOp


class EncryptedStore(StoreDecorator):
    def __init__(self, store: Store, key_ring: KeyRing | None, kinds: Sequence[str]) -> None:
        """`kinds` are key prefixes such as core/secrets."""
        super().__init__(store)
        self._key_ring = key_ring
        self._prefixes = tuple(f"{kind}/" for kind in kinds) if key_ring is not None else ()
        self._failure: asyncio.Future[StoreError] = asyncio.get_running_loop().create_future()
        store.failure.add_done_callback(self._on_inner_failure)

    # --- writes ---

    def put(self, key: str, value: bytes, expected_revision: int) -> asyncio.Future[int]:
        return self._store.put(key, self._encrypt(key, value), expected_revision)

    def transaction(self, operations: Sequence[WriteOp], above_revision: int = 0) -> asyncio.Future[int]:
        if self._prefixes:
            operations = [
                write if write.value is None else write._replace(value=self._encrypt(write.key, write.value))
                for write in operations
            ]
        return self._store.transaction(operations, above_revision)

    def _encrypt(self, key: str, value: bytes) -> bytes:
        if self._key_ring is None or not key.startswith(self._prefixes):
            return value
        return self._key_ring.encrypt(key, value)

    # --- reads ---

    async def get(self, key: str) -> KeyValue | None:
        item = await self._store.get(key)
        return item if item is None else item._replace(value=self.decrypt(key, item.value))

    async def range(
        self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0
    ) -> tuple[list[KeyValue], int]:
        items, read_revision = await self._store.range(prefix, start=start, limit=limit, revision=revision)
        for index, item in enumerate(items):
            if item.value.startswith(ENCRYPTED_PREFIX):
                items[index] = item._replace(value=self.decrypt(item.key, item.value))
        return items, read_revision

    def watch(
        self, after_revision: int, handler: EventHandler, on_progress: ProgressHandler | None = None
    ) -> Subscription:
        def deliver_decrypted(events: Sequence[StoreEvent]) -> None:
            if self.failure.done():
                return
            try:
                events = self._decrypt_events(events)
            except StoreError as error:
                self.failure.set_result(error)
            else:
                handler(events)

        return self._store.watch(after_revision, deliver_decrypted, on_progress)

    def _decrypt_events(self, events: Sequence[StoreEvent]) -> Sequence[StoreEvent]:
        if not any(value is not None and value.startswith(ENCRYPTED_PREFIX) for _, _, value in events):
            return events
        return [
            event if event.value is None else event._replace(value=self.decrypt(event.key, event.value))
            for event in events
        ]

    def decrypt(self, key: str, value: bytes) -> bytes:
        if not value.startswith(ENCRYPTED_PREFIX):
            return value
        if self._key_ring is None:
            raise missing_key_error(key, key_name_of(value), "no --encryption-key-file was given")
        return self._key_ring.decrypt(key, value)

    # --- health ---

    @property
    def failure(self) -> asyncio.Future[StoreError]:
        return self._failure

    def health_error(self) -> str:
        return str(self.failure.result()) if _has_failed(self.failure) else self._store.health_error()

    async def close(self) -> None:
        await self._store.close()
        self.failure.cancel()

    def _on_inner_failure(self, failure: asyncio.Future[StoreError]) -> None:
        if not failure.cancelled() and not self.failure.done():
            self.failure.set_result(failure.result())


def _has_failed(failure: asyncio.Future[StoreError]) -> bool:
    return failure.done() and not failure.cancelled()
