"""Writes of Services, serialised per logical cluster: each sees the addresses and ports the previous one allocated.

With webhooks the lock is taken after them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from shoal.apiserver.core import Call, Core
from shoal.apiserver.turns import services_of, take_turn
from shoal.apiserver.verbs.create import create
from shoal.apiserver.verbs.patch import patch
from shoal.apiserver.verbs.update import update
from shoal.objects.wire import Answer, Response


def _in_turn(write: Callable[[Core, Call], Awaitable[Response]]) -> Callable[[Core, Call], Awaitable[Answer]]:
    async def written(core: Core, call: Call) -> Answer:
        if core.webhooks.of(call.target.cluster) is not None:
            return await write(core, call)
        return await take_turn(services_of(call), write, core, call)

    return written


create_service, update_service, patch_service = _in_turn(create), _in_turn(update), _in_turn(patch)
