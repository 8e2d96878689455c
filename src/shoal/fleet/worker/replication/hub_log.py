"""The log of a hosted cluster at the hub: Secrets that are written once, read by number, and deleted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any

from shoal.client.rest import Client
from shoal.fleet.bus.interface import Name
from shoal.fleet.resources import SECRETS
from shoal.fleet.worker.replication.decide import segment_content, segment_secret
from shoal.kinds.fleet import migration
from shoal.objects.errors import AlreadyExists, NotFound
from shoal.runtime.controller import RequeueError

Object = dict[str, Any]


async def write_segment(hub: Client, managed: Object, epoch: int, number: int, content: bytes) -> None:
    """A segment that exists already may be this one: a response may have been lost."""
    desired, namespace = segment_secret(managed, epoch, number, content), managed["metadata"]["namespace"]
    try:
        await hub.create(SECRETS, desired, namespace, metadata_only=True)
    except AlreadyExists:
        name = desired["metadata"]["name"]
        if segment_content(await hub.get(SECRETS, name, namespace)) != content:
            raise RequeueError(f"Secret {name} already exists with other content; rename or delete it") from None


async def next_free_number(hub: Client, name: Name, epoch: int, start: int) -> int:
    """Returns the first number from `start` on without a segment."""
    number = start
    while await _read_segment(hub, name, epoch, number) is not None:
        number += 1
    return number


async def read_segments(hub: Client, name: Name, epoch: int, first: int) -> AsyncIterator[bytes]:
    """Yields all consecutive segments from that number on."""
    number = first
    while (content := await _read_segment(hub, name, epoch, number)) is not None:
        yield content
        number += 1


async def delete_segments(hub: Client, name: Name, epoch: int, numbers: Iterable[int]) -> None:
    for number in numbers:
        try:
            await hub.delete(SECRETS, migration.log_secret_name(name[1], epoch, number), name[0], metadata_only=True)
        except NotFound:
            continue


async def _read_segment(hub: Client, name: Name, epoch: int, number: int) -> bytes | None:
    try:
        return segment_content(await hub.get(SECRETS, migration.log_secret_name(name[1], epoch, number), name[0]))
    except NotFound:
        return None
