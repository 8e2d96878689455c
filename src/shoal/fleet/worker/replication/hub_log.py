"""The log of a hosted cluster at the hub: Secrets that are written once, read by number, and deleted.

They are written to the namespace of logs. Workers of earlier releases wrote them beside the ManagedCluster. A number is
in one of the two places only, so a log that begins there continues here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import Any

from shoal.client.rest import Client
from shoal.fleet.resources import SECRETS
from shoal.fleet.worker.replication.decide import segment_content, segment_secret
from shoal.kinds.fleet import cluster_log
from shoal.kinds.fleet.cluster_log import LogKey
from shoal.objects.errors import AlreadyExists, Forbidden, NotFound
from shoal.runtime.controller import RequeueError

Object = dict[str, Any]


async def write_segment(hub: Client, log: LogKey, number: int, content: bytes) -> None:
    """A segment that exists already may be this one: a response may have been lost."""
    desired = segment_secret(log, number, content)
    try:
        await hub.create(SECRETS, desired, cluster_log.NAMESPACE, metadata_only=True)
    except AlreadyExists:
        name = desired["metadata"]["name"]
        if segment_content(await hub.get(SECRETS, name, cluster_log.NAMESPACE)) != content:
            raise RequeueError(f"Secret {name} already exists with other content; rename or delete it") from None


async def next_free_number(hub: Client, log: LogKey, start: int) -> int:
    """Returns the first number from `start` on without a segment."""
    number = start
    while await _read_segment(hub, log, number) is not None:
        number += 1
    return number


async def read_segments(hub: Client, log: LogKey, first: int) -> AsyncIterator[bytes]:
    """Yields all consecutive segments from that number on."""
    number = first
    while (content := await _read_segment(hub, log, number)) is not None:
        yield content
        number += 1


async def delete_segments(hub: Client, log: LogKey, numbers: Iterable[int]) -> None:
    for number in numbers:
        try:
            await hub.delete(SECRETS, log.secret_name(number), cluster_log.NAMESPACE, metadata_only=True)
        except NotFound:
            # Forbidden: a Secret of a person has the name.
            with suppress(NotFound, Forbidden):
                await hub.delete(SECRETS, log.legacy_secret_name(number), log.namespace, metadata_only=True)


async def _read_segment(hub: Client, log: LogKey, number: int) -> bytes | None:
    with suppress(NotFound):
        return segment_content(await hub.get(SECRETS, log.secret_name(number), cluster_log.NAMESPACE))
    with suppress(NotFound, Forbidden):
        return segment_content(await hub.get(SECRETS, log.legacy_secret_name(number), log.namespace))
    return None
