"""Writes of Services, one at a time in a logical cluster: each sees the addresses and ports the last one took."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from shoal.apiserver.core import Call, Core
from shoal.apiserver.turns import Turns
from shoal.apiserver.verbs.create import create
from shoal.apiserver.verbs.patch import patch
from shoal.apiserver.verbs.update import update
from shoal.objects.wire import Answer, Response

_turns = Turns()


def _in_turn(write: Callable[[Core, Call], Awaitable[Response]]) -> Callable[[Core, Call], Awaitable[Answer]]:
    async def written(core: Core, call: Call) -> Answer:
        return await _turns.take((f"{id(core)}/{call.target.cluster}", "services"), write, core, call)

    return written


create_service, update_service, patch_service = _in_turn(create), _in_turn(update), _in_turn(patch)
