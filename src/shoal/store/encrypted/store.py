"""Store decorator that encrypts values of some kinds on write and decrypts every encrypted value on read.

It is used without keys as well. It then encrypts nothing, and names the missing key when it meets an encrypted value
instead of returning ciphertext. An event that cannot be decrypted ends the server: no event is left out of a watch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from shoal.objects.errors import StoreError
from shoal.store.encrypted.keys import SEALED, KeyRing, missing, name_in
from shoal.store.interface import Advance, Deliver, Event, KeyValue, Store, Subscription, Write
from shoal.store.passing import PassingStore


class EncryptedStore(PassingStore):
    def __init__(self, store: Store, ring: KeyRing | None, kinds: Sequence[str]) -> None:
        """`kinds` are key prefixes such as core/secrets."""
        super().__init__(store)
        self._ring = ring
        self._prefixes = tuple(f"{kind}/" for kind in kinds) if ring is not None else ()
        self._failure: asyncio.Future[StoreError] = asyncio.get_running_loop().create_future()
        store.failure.add_done_callback(self._failed_below)

    # --- writes ---

    def put(self, key: str, value: bytes, expected: int) -> asyncio.Future[int]:
        return self._store.put(key, self._sealed(key, value), expected)

    def together(self, writes: Sequence[Write], above: int = 0) -> asyncio.Future[int]:
        if self._prefixes:
            writes = [
                write if write.value is None else write._replace(value=self._sealed(write.key, write.value))
                for write in writes
            ]
        return self._store.together(writes, above)

    def _sealed(self, key: str, value: bytes) -> bytes:
        if self._ring is None or not key.startswith(self._prefixes):
            return value
        return self._ring.seal(key, value)

    # --- reads ---

    async def get(self, key: str) -> KeyValue | None:
        found = await self._store.get(key)
        return found if found is None else found._replace(value=self.opened(key, found.value))

    async def range(
        self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0
    ) -> tuple[list[KeyValue], int]:
        found, at = await self._store.range(prefix, start=start, limit=limit, revision=revision)
        for index, item in enumerate(found):
            if item.value.startswith(SEALED):
                found[index] = item._replace(value=self.opened(item.key, item.value))
        return found, at

    def watch(self, after: int, deliver: Deliver, advance: Advance | None = None) -> Subscription:
        def deliver_opened(events: Sequence[Event]) -> None:
            if self.failure.done():
                return
            try:
                events = self._all_opened(events)
            except StoreError as error:
                self.failure.set_result(error)
            else:
                deliver(events)

        return self._store.watch(after, deliver_opened, advance)

    def _all_opened(self, events: Sequence[Event]) -> Sequence[Event]:
        if not any(value is not None and value.startswith(SEALED) for _, _, value in events):
            return events
        return [
            event if event.value is None else event._replace(value=self.opened(event.key, event.value))
            for event in events
        ]

    def opened(self, key: str, value: bytes) -> bytes:
        if not value.startswith(SEALED):
            return value
        if self._ring is None:
            raise missing(key, name_in(value), "no --encryption-key-file was given")
        return self._ring.open(key, value)

    # --- health ---

    @property
    def failure(self) -> asyncio.Future[StoreError]:
        return self._failure

    def problem(self) -> str:
        return str(self.failure.result()) if _has_failed(self.failure) else self._store.problem()

    async def close(self) -> None:
        await self._store.close()
        self.failure.cancel()

    def _failed_below(self, failure: asyncio.Future[StoreError]) -> None:
        if not failure.cancelled() and not self.failure.done():
            self.failure.set_result(failure.result())


def _has_failed(failure: asyncio.Future[StoreError]) -> bool:
    return failure.done() and not failure.cancelled()
