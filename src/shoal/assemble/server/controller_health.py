"""Reports failing controllers as the condition ControllersHealthy of the LogicalCluster root."""

from __future__ import annotations

import asyncio
import logging

from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import Unreachable
from shoal.clock import Clock, rfc3339
from shoal.kinds.fleet.logicalcluster import GROUP, PLURAL, VERSION
from shoal.objects.conditions import get_condition, set_condition
from shoal.objects.errors import StatusError

log = logging.getLogger("shoal.assemble")

LOGICAL_CLUSTERS = GroupVersionResource(GROUP, VERSION, PLURAL, namespaced=False)
CONTROLLERS_HEALTHY = "ControllersHealthy"
RETRY_SECONDS = 5.0
MAX_NAMED = 10
"""Failing controllers that the message names."""
MAX_ERROR = 1000
"""Characters of each error."""


class ControllerHealth:
    name = "controller-health"

    def __init__(self, client: Client, clock: Clock) -> None:
        """`client` is for the root of the server."""
        self._client, self._clock = client, clock
        self._errors: dict[str, str] = {}
        self._changed = asyncio.Event()

    def report(self, controller: str, error: str) -> None:
        """An empty error: the controller is healthy again."""
        if self._errors.get(controller, "") != error:
            self._errors[controller] = error
            if not error:
                del self._errors[controller]
            self._changed.set()

    async def run(self) -> None:
        # A condition of an earlier process is corrected at the start.
        while True:
            self._changed.clear()
            try:
                await self._write_condition()
            except (StatusError, Unreachable) as error:
                log.info("cannot write the condition %s: %s", CONTROLLERS_HEALTHY, error)
                await self._clock.sleep(RETRY_SECONDS)
                continue
            await self._changed.wait()

    async def _write_condition(self) -> None:
        root = await self._client.get(LOGICAL_CLUSTERS, "root")
        if not self._errors and get_condition(root, CONTROLLERS_HEALTHY) is None:
            return
        named = sorted(self._errors.items())[:MAX_NAMED]
        updated = set_condition(
            root,
            CONTROLLERS_HEALTHY,
            "False" if self._errors else "True",
            reason="ControllerFailed" if self._errors else "AllRunning",
            message="; ".join(f"{name}: {error[:MAX_ERROR]}" for name, error in named),
            now=rfc3339(self._clock.now()),
        )
        if updated is not root:
            await self._client.update(LOGICAL_CLUSTERS, updated, "status")
