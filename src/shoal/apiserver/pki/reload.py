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

from shoal.apiserver.pki.ca import CertificateAuthority, CertificateError
from shoal.clock import Clock

log = logging.getLogger("shoal.apiserver")

POLL_SECONDS = 60.0
FILES = ("serving.pem", "ca.crt", "former-serving.pem", "former-ca.crt", "client-ca.crt")


class ServingCertReloader:
    def __init__(
        self,
        ca: CertificateAuthority,
        names: list[str],
        clock: Clock,
        new_context: Callable[[], ssl.SSLContext],
        on_reload: Callable[[ssl.SSLContext], None],
    ) -> None:
        """`new_context` builds the TLS context for new connections from the files, and `on_reload` gets it."""
        self._ca, self._names, self._clock = ca, names, clock
        self._new_context, self._on_reload = new_context, on_reload
        self._loaded_versions = self._file_versions()

    async def run(self) -> None:
        while True:
            await self._clock.sleep(POLL_SECONDS)
            await self.reload_if_changed()

    async def reload_if_changed(self) -> bool:
        """Returns whether the served certificate changed."""
        try:
            await asyncio.to_thread(self._ca.ensure_serving_certificate, self._names)
            current = self._file_versions()
            if current == self._loaded_versions:
                return False
            context = self._new_context()
        except (CertificateError, OSError) as error:
            log.warning("cannot reload serving certificate; keeping the current one: %s", error)
            return False
        self._on_reload(context)
        self._loaded_versions = current
        log.info("reloaded serving certificate from %s", self._ca.directory)
        return True

    def _file_versions(self) -> tuple[object, ...]:
        return tuple(_file_version(self._ca.directory / name) for name in FILES)


def _file_version(file: Path) -> tuple[int, int, int]:
    try:
        stat = file.stat()
    except FileNotFoundError:
        return 0, 0, 0
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
