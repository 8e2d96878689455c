"""Reloads the serving certificate while the server runs: renewed before expiry, or replaced on disk.

The authority renews its own certificate. New connections get whatever is in the files. Unusable files change nothing
and are logged.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from pathlib import Path

from shoal.apiserver.certificates import Authority, CertificateError, server_context
from shoal.clock import Clock

log = logging.getLogger("shoal.apiserver")

LOOK_SECONDS = 60.0
FILES = ("serving.pem", "ca.crt")


class Rotation:
    def __init__(
        self,
        authority: Authority,
        names: list[str],
        clock: Clock,
        renew: Callable[[ssl.SSLContext], None],
    ) -> None:
        """`on_reload` gets the TLS context for new connections."""
        self._authority, self._names, self._clock, self._renew = authority, names, clock, renew
        self._seen = self._stamps()

    async def run(self) -> None:
        while True:
            await self._clock.sleep(LOOK_SECONDS)
            await self.look()

    async def look(self) -> bool:
        """Returns whether the served certificate changed."""
        try:
            await asyncio.to_thread(self._authority.ensure_serving, self._names)
            found = self._stamps()
            if found == self._seen:
                return False
            context = server_context(self._authority.directory)
        except (CertificateError, OSError) as error:
            log.warning("the serving certificate stays as it is: %s", error)
            return False
        self._renew(context)
        self._seen = found
        log.info("new connections get the serving certificate that is in %s now", self._authority.directory)
        return True

    def _stamps(self) -> tuple[object, ...]:
        return tuple(_stamp(self._authority.directory / name) for name in FILES)


def _stamp(file: Path) -> tuple[int, int, int]:
    found = file.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size
