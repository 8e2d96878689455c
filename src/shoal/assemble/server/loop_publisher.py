"""Gives the loops that run outside the hub what they need: a ServiceAccount each, and the ConfigMap shoal-loops.

A loop that the hub runs itself has no ServiceAccount. When a loop returns to the hub, its account is deleted, and so
every token that an outside process still has is rejected. The condition with which such a process reported failures
is removed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from shoal.assemble.server.controller_health import LOGICAL_CLUSTERS
from shoal.client.rest import Client, GroupVersionResource
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.kinds.rbac.controller_accounts import NAMESPACE
from shoal.kinds.rbac.loop_accounts import LOOPS, SETTINGS_CONFIG_MAP, account_of, health_condition_of
from shoal.kinds.rbac.loop_settings import LoopSettings, settings_config_map
from shoal.objects.errors import AlreadyExists, NotFound, StatusError

log = logging.getLogger("shoal.assemble")

Object = dict[str, Any]

CONFIG_MAPS = GroupVersionResource("", "v1", "configmaps")
SERVICE_ACCOUNTS = GroupVersionResource("", "v1", "serviceaccounts")
INTERVAL_SECONDS, RETRY_SECONDS = 30.0, 2.0
"""Between checks: the authority of the hub may have been replaced, and somebody may have deleted an account."""


class LoopPublisher:
    name = "loop-publisher"

    def __init__(self, client: Client, clock: Clock, settings: Callable[[], LoopSettings]) -> None:
        """`client` is for the root of the hub."""
        self._client, self._clock, self._settings = client, clock, settings

    async def run(self) -> None:
        while True:
            try:
                await self.publish()
            except (StatusError, Unreachable) as error:
                log.info("cannot publish the loops that run outside: %s", error)
                await self._clock.sleep(RETRY_SECONDS)
            else:
                await self._clock.sleep(INTERVAL_SECONDS)

    async def publish(self) -> None:
        settings = self._settings()
        for loop in LOOPS:
            await (self._ensure_account(loop) if loop in settings.outside else self._delete_account(loop))
        await self._remove_conditions(settings.outside)
        existing = await self._get(CONFIG_MAPS, SETTINGS_CONFIG_MAP)
        desired = settings_config_map(settings)
        if not settings.outside:
            if existing is not None:
                await self._client.delete(CONFIG_MAPS, SETTINGS_CONFIG_MAP, NAMESPACE)
        elif existing is None:
            await self._client.create(CONFIG_MAPS, desired, NAMESPACE)
        elif existing.get("data") != desired["data"]:
            await self._client.update(CONFIG_MAPS, {**existing, "data": desired["data"]})

    async def _ensure_account(self, loop: str) -> None:
        account = account_of(loop)
        if await self._get(SERVICE_ACCOUNTS, account) is not None:
            return
        body = {"metadata": {"name": account, "namespace": NAMESPACE}, "automountServiceAccountToken": False}
        with suppress(AlreadyExists):
            await self._client.create(
                SERVICE_ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", **body}, NAMESPACE
            )

    async def _delete_account(self, loop: str) -> None:
        if await self._get(SERVICE_ACCOUNTS, account_of(loop)) is not None:
            with suppress(NotFound):
                await self._client.delete(SERVICE_ACCOUNTS, account_of(loop), NAMESPACE)

    async def _remove_conditions(self, outside: frozenset[str]) -> None:
        root = await self._client.get(LOGICAL_CLUSTERS, "root")
        inside = {health_condition_of(loop) for loop in LOOPS if loop not in outside}
        status = root.get("status") or {}
        conditions = status.get("conditions") or []
        kept = [each for each in conditions if each["type"] not in inside]
        if len(kept) < len(conditions):
            await self._client.update(LOGICAL_CLUSTERS, {**root, "status": {**status, "conditions": kept}}, "status")

    async def _get(self, kind: GroupVersionResource, name: str) -> Object | None:
        try:
            return await self._client.get(kind, name, NAMESPACE)
        except NotFound:
            return None
