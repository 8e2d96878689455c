"""Reports failing controllers as a condition of the LogicalCluster root: ControllersHealthy for those of the server,
and one such as FleetLoopHealthy for each loop that runs outside.
"""

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

    def __init__(self, client: Client, clock: Clock, condition: str = CONTROLLERS_HEALTHY) -> None:
        """`client` is for the root of the server."""
        self._client, self._clock, self._condition = client, clock, condition
        self._errors: dict[str, str] = {}
        self._changed = asyncio.Event()

    def report(self, controller: str, error: str) -> None:
        """An empty error: the controller is healthy again."""
        if self._errors.get(controller, "") != error:
            self._errors[controller] = error
            if not error:
                del self._errors[controller]
            self._changed.set()

    def error(self) -> str:
        """Returns the errors of all failing controllers; empty: none fails."""
        named = sorted(self._errors.items())[:MAX_NAMED]
        return "; ".join(f"{name}: {error[:MAX_ERROR]}" for name, error in named)

    async def run(self) -> None:
        # A condition of an earlier process is corrected at the start.
        while True:
            self._changed.clear()
            try:
                await self._write_condition()
            except (StatusError, Unreachable) as error:
                log.info("cannot write the condition %s: %s", self._condition, error)
                await self._clock.sleep(RETRY_SECONDS)
                continue
            await self._changed.wait()

    async def _write_condition(self) -> None:
        root = await self._client.get(LOGICAL_CLUSTERS, "root")
        if not self._errors and get_condition(root, self._condition) is None:
            return
        updated = set_condition(
            root,
            self._condition,
            "False" if self._errors else "True",
            reason="ControllerFailed" if self._errors else "AllRunning",
            message=self.error(),
            now=rfc3339(self._clock.now()),
        )
        if updated is not root:
            await self._client.update(LOGICAL_CLUSTERS, updated, "status")
