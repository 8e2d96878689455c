"""What a worker needs to provide kind clusters: the kind command, keys, and the size of this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping

from shoal.capi.providers.kind.command import KindCommand, KindRunner
from shoal.capi.providers.kind.errors import KindError
from shoal.fleet.worker.settings import KindProbe, KindSupport


def new_kind_support(images: Mapping[str, str], command: KindRunner | None = None) -> KindSupport:
    """`images` are node images by release. `command` is given in place of the kind in PATH."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    cpu = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return KindSupport(_probe_of(command or KindCommand()), _new_key, images, str(cpu), f"{memory // 1024 // 1024}Mi")


def _probe_of(command: KindRunner) -> KindProbe:
    async def probe() -> tuple[str, str]:
        try:
            await command.clusters()
        except KindError as error:
            return error.reason, error.message
        return "", ""

    return probe


def _new_key() -> bytes:
    from shoal.apiserver.authn.es256 import generate_secret  # noqa: PLC0415  loads slowly

    return generate_secret()
