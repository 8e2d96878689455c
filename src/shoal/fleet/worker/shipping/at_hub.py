"""The log of a hosted cluster at the hub: Secrets that are written once, read by number, and deleted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any

from shoal.client.requests import Client
from shoal.fleet.bus.interface import Name
from shoal.fleet.resources import SECRETS
from shoal.fleet.worker.shipping.decide import secret, segment
from shoal.kinds import moving
from shoal.objects.errors import AlreadyExists, NotFound
from shoal.runtime.loop import Later

Object = dict[str, Any]


async def write(hub: Client, managed: Object, epoch: int, number: int, content: bytes) -> None:
    """A segment that exists already may be this one: a response may have been lost."""
    wanted, namespace = secret(managed, epoch, number, content), managed["metadata"]["namespace"]
    try:
        await hub.create(SECRETS, wanted, namespace, brief=True)
    except AlreadyExists:
        name = wanted["metadata"]["name"]
        if segment(await hub.get(SECRETS, name, namespace)) != content:
            raise Later(f"Secret {name} is there already and is somebody else's; rename or delete it") from None


async def free_number(hub: Client, name: Name, epoch: int, start: int) -> int:
    """Returns the first number from `start` on without a segment."""
    number = start
    while await _read(hub, name, epoch, number) is not None:
        number += 1
    return number


async def segments(hub: Client, name: Name, epoch: int, first: int) -> AsyncIterator[bytes]:
    """Yields all consecutive segments from that number on."""
    number = first
    while (found := await _read(hub, name, epoch, number)) is not None:
        yield found
        number += 1


async def take_away(hub: Client, name: Name, epoch: int, numbers: Iterable[int]) -> None:
    for number in numbers:
        try:
            await hub.delete(SECRETS, moving.log_name(name[1], epoch, number), name[0], brief=True)
        except NotFound:
            continue


async def _read(hub: Client, name: Name, epoch: int, number: int) -> bytes | None:
    try:
        return segment(await hub.get(SECRETS, moving.log_name(name[1], epoch, number), name[0]))
    except NotFound:
        return None
