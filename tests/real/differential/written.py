"""The stories people wrote."""

from __future__ import annotations

from collections.abc import Iterator

from tests.real.differential import (
    written_access,
    written_bodies,
    written_definitions,
    written_devices,
    written_events,
    written_objects,
    written_patches,
    written_reading,
    written_storage,
    written_workloads,
)
from tests.real.differential.asking import Story

_PAGES = (
    written_bodies,
    written_reading,
    written_patches,
    written_objects,
    written_events,
    written_workloads,
    written_definitions,
    written_devices,
    written_storage,
    written_access,
)


def stories() -> Iterator[Story]:
    for page in _PAGES:
        yield from page.stories()
