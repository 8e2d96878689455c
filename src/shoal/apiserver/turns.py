"""Serialises writes per namespace while a ResourceQuota exists.

Quota usage is counted from the cache, which lags writes that are still queued: two writes that fit alone could
otherwise pass together.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar

from shoal.apiserver.admission.quotas import is_charged, is_measured
from shoal.apiserver.core import Call, Core
from shoal.apiserver.locks import Place

T = TypeVar("T")


def takes_turns(core: Core, call: Call) -> bool:
    """Reports whether a quota of the namespace may apply to the write."""
    if not call.namespace or call.verb not in ("create", "update", "patch") or not is_charged(core, call):
        return False
    if call.verb == "create":
        return not call.target.subresource
    # An update does not change an object count, but PUT and apply may create.
    return call.target.subresource in ("", "resize") and (is_measured(call) or call.entry() is None)


async def take_turn(place: Place, write: Callable[[Core, Call], Awaitable[T]], core: Core, call: Call) -> T:
    """Runs the write under the lock until it is durable and in the cache."""
    async with core.locks.at(place):
        call.turns = (*call.turns, place)
        return await write(core, call)


def namespace_of(call: Call) -> Place:
    return call.target.cluster, call.namespace


def services_of(call: Call) -> Place:
    """Services are serialised in the whole cluster: each write sees the addresses and ports the previous one
    allocated.
    """
    return call.target.cluster, "/services"


@asynccontextmanager
async def turn(core: Core, call: Call) -> AsyncIterator[None]:
    """Locks for the last part of a write that webhooks have reviewed: the webhooks may write there before they
    respond.
    """
    wanted = [namespace_of(call)] if takes_turns(core, call) else []
    if (call.resource.group, call.resource.plural) == ("", "services") and not call.target.subresource:
        wanted.append(services_of(call))
    async with AsyncExitStack() as taken:
        for place in wanted:
            if place not in call.turns:
                await taken.enter_async_context(core.locks.at(place))
        yield
