"""Decides what to publish about one ManagedCluster, from the object and the messages in the stream. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.fleet.bus.cloudevents import DELETED, PUT, RELEASED
from shoal.fleet.bus.interface import MessageVersion, message_of
from shoal.kinds.fleet import infrav1

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PublishedMessage:
    """The last message of a worker's subject."""

    type: str
    version: MessageVersion
    sequence: int


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    worker: str
    type: str
    version: MessageVersion
    with_object: bool = False


@dataclass(frozen=True, slots=True)
class PublishDecision:
    messages: tuple[OutgoingMessage, ...] = ()
    purge: bool = False
    """None of its messages are needed any more."""


def decide(managed: Object | None, published: Mapping[str, PublishedMessage]) -> PublishDecision:
    """`managed` is None if it does not exist, according to a complete list or a deletion event. `published` is by
    worker.

    A worker that had it gets a release before the next one gets a put. A message with a later revision than the one
    seen here was published by a hub that is further ahead.
    """
    if managed is None:
        releases = tuple(
            OutgoingMessage(worker, RELEASED, each.version) for worker, each in published.items() if each.type == PUT
        )
        return PublishDecision(releases, purge=bool(published) and not releases)
    message, owner = message_of(managed), infrav1.assigned_worker(managed)
    version = message.version
    outgoing = [
        OutgoingMessage(worker, RELEASED, version)
        for worker, each in sorted(published.items())
        if worker != owner and each.type != RELEASED and each.version.revision <= version.revision
    ]
    last_message = published.get(owner)
    if owner and (last_message is None or last_message.version.revision < version.revision):
        outgoing.append(OutgoingMessage(owner, DELETED if message.deleting else PUT, version, with_object=True))
    return PublishDecision(tuple(outgoing))
