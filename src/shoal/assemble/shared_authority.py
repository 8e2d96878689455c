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

from shoal.apiserver.certificates import Authority, CertificateError
from shoal.assemble.identity import AUTHORITY, NOTE, are_of_one, read_identity, write_authority
from shoal.assemble.store_settings import Notes
from shoal.clock import Clock
from shoal.objects.errors import StoreError

log = logging.getLogger("shoal")

LOOK_SECONDS = 60.0
Identity = dict[str, str]


class SharedAuthority:
    def __init__(self, path: Path, notes: Notes, clock: Clock) -> None:
        """`path` is a data directory whose files match the store's."""
        self._path, self._notes, self._clock = path, notes, clock
        self._known = read_identity(path)

    async def run(self) -> None:
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            try:
                await self.look()
            except (StoreError, OSError) as error:
                log.warning("the shared certificate authority was not looked at: %s", error)

    async def look(self) -> None:
        own, text = read_identity(self._path), await self._notes.note(NOTE)
        if own is None or text is None:
            return
        kept: Identity = json.loads(text)
        if own == kept or not are_of_one(own, kept):
            self._known = own
        elif kept == self._known:
            await self._give(own, text)
        else:
            if own != self._known:
                log.warning("the certificate authority was replaced here and elsewhere: the other one stands")
            write_authority(self._path, kept)
            self._known = kept
            log.info("the certificate authority is the one that another server was given")

    async def _give(self, own: Identity, before: bytes) -> None:
        try:
            Authority(self._path / "pki").check()
        except CertificateError as error:
            log.warning("%s; the other servers are not given %s", error, " and ".join(AUTHORITY))
            return
        if await self._notes.change_note(NOTE, json.dumps(own).encode(), before):
            self._known = own
            log.info("the other servers are given the certificate authority that is here now")
