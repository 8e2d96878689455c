"""Distributes the certificate authority of servers that share a store: replaced in the directory of one, it reaches all
of them.

Each server compares periodically. If its files have changed, they go into the store; if the stored ones have changed,
they are written to the directory. If both have changed, the stored ones win. An unusable authority is not distributed:
a key may be there before its certificate.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

from shoal.apiserver.pki.ca import CertificateAuthority, CertificateError
from shoal.assemble.storage.config import StoreMetadata
from shoal.assemble.storage.identity import CA_FILES, IDENTITY_METADATA, differ_only_in_ca, read_identity, write_ca
from shoal.clock import Clock
from shoal.objects.errors import StoreError

log = logging.getLogger("shoal")

SYNC_SECONDS = 60.0
Identity = dict[str, str]


class SharedCA:
    def __init__(self, path: Path, metadata: StoreMetadata, clock: Clock) -> None:
        """`path` is a data directory whose files match the store's."""
        self._path, self._metadata, self._clock = path, metadata, clock
        self._last_synced = read_identity(path)

    async def run(self) -> None:
        while True:
            await self._clock.sleep(SYNC_SECONDS)
            try:
                await self.sync()
            except (StoreError, OSError) as error:
                log.warning("cannot sync the shared certificate authority: %s", error)

    async def sync(self) -> None:
        own, text = read_identity(self._path), await self._metadata.get_metadata(IDENTITY_METADATA)
        if own is None or text is None:
            return
        shared: Identity = json.loads(text)
        if own == shared or not differ_only_in_ca(own, shared):
            self._last_synced = own
        elif shared == self._last_synced:
            await self._publish(own, text)
        else:
            if own != self._last_synced:
                log.warning("the certificate authority was replaced here and by another server: using the other one")
            write_ca(self._path, shared)
            self._last_synced = shared
            log.info("installed the certificate authority of another server")

    async def _publish(self, own: Identity, expected: bytes) -> None:
        try:
            CertificateAuthority(self._path / "pki").check_usable()
        except CertificateError as error:
            log.warning("%s; not sharing %s with the other servers", error, " and ".join(CA_FILES))
            return
        if await self._metadata.compare_and_swap_metadata(IDENTITY_METADATA, json.dumps(own).encode(), expected):
            self._last_synced = own
            log.info("shared the new certificate authority with the other servers")
