"""The API importer: what each workload Cluster offers of the wanted APIs becomes APIResourceImports.

A cluster that does not answer keeps its imports; they go with their workload Cluster (it owns them), or when its
discovery no longer lists the API.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shoal.client.reflector import Key, Reflector
from shoal.client.requests import Client
from shoal.client.transport import Unreachable
from shoal.clock import Clock
from shoal.kinds import workload
from shoal.kinds.apiresource import Api, api_of, import_name, is_settled, negotiated_name, parse_resource
from shoal.objects.conditions import condition_is, get_condition
from shoal.objects.errors import AlreadyExists, StatusError
from shoal.runtime.loop import Later, Loop
from shoal.sync.conditions import Condition
from shoal.sync.connecting import Connect, NoKubeconfig, kubeconfig_of
from shoal.sync.discovery import native
from shoal.sync.importer.decide import Offer, decide
from shoal.sync.importer.openapi import SchemaError
from shoal.sync.importer.pulling import pull
from shoal.sync.reporting import Reporter
from shoal.sync.resources import CLUSTERS, IMPORTS, NEGOTIATED

Object = dict[str, Any]

WORKERS = 16
PULL_SECONDS = 20.0
AGAIN_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Told:
    """What is to be said of a cluster that was pulled, when its imports are settled."""

    imports: frozenset[str]
    message: str


class Importer:
    """Keys are names of workload Clusters."""

    def __init__(
        self, client: Client, clock: Clock, connect: Connect, resources: Sequence[str], reporter: Reporter
    ) -> None:
        self._client, self._clock, self._connect, self._reporter = client, clock, connect, reporter
        self._wanted = [parse_resource(text) for text in resources]
        self.loop: Loop[str] = Loop("importer", clock, self.reconcile, WORKERS)
        self._clusters = Reflector(client, CLUSTERS, clock, self._cluster)
        self._imports = Reflector(client, IMPORTS, clock, self._import)
        self._negotiated = Reflector(client, NEGOTIATED, clock, self._negotiation)
        self.loop.sources += [self._clusters.run, self._imports.run, self._negotiated.run, self._tick]
        self._done: dict[str, tuple[str, int]] = {}
        """Clusters pulled lately: uid and generation of the workload Cluster they were pulled for."""
        self._due: set[str] = set()
        self._untold: dict[str, Told] = {}
        self._locations: dict[str, str] = {}

    def _cluster(self, key: Key, obj: Object | None) -> None:
        if obj is None:
            self._done.pop(key[2], None)
            self._untold.pop(key[2], None)
        elif self._done.get(key[2]) != _version(obj):
            self._again(key[2])

    def _import(self, key: Key, obj: Object | None) -> None:
        location = self._locations.pop(key[2], "") if obj is None else obj["spec"]["location"]
        if obj is None:
            self._again(location)
            return
        self._locations[key[2]] = location
        self._check_schema(obj)
        if location in self._untold:
            self.loop.queue.add(location)

    def _negotiation(self, key: Key, obj: Object | None) -> None:
        for found in self._imports.objects.values():
            self._check_schema(found)

    def _check_schema(self, found: Object) -> None:
        """An import that left its schema out, because it was the negotiated one, has to tell it when it is not."""
        spec = found["spec"]
        if "openAPIV3Schema" in spec or not self._negotiated.synced:
            return
        agreed = self._negotiated.objects.get(("", "", negotiated_name(api_of(found))))
        if agreed is None or agreed["spec"].get("schemaDigest") != spec.get("schemaDigest"):
            self._again(spec["location"])

    def _again(self, name: str) -> None:
        self._due.add(name)
        self.loop.queue.add(name)

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep(AGAIN_SECONDS)
            for name in list(self._done):
                self._again(name)

    async def reconcile(self, name: str) -> None:
        cluster = self._clusters.objects.get(("", "", name))
        if cluster is None:
            self._due.discard(name)
            return
        if name not in self._due:
            await self._tell(cluster)
            return
        if _is_dark(cluster):
            return
        if not self._imports.synced or not self._negotiated.synced:
            raise Later("the imports are not known yet")
        self._due.discard(name)
        try:
            await self._import_apis(cluster)
        except BaseException:
            self._due.add(name)
            raise

    async def _import_apis(self, cluster: Object) -> None:
        name = cluster["metadata"]["name"]
        try:
            async with asyncio.timeout(PULL_SECONDS):
                offers, missing = await self._pull(cluster)
        except NoKubeconfig as error:
            await self._failed(cluster, "InvalidKubeConfig", error)
        except (Unreachable, TimeoutError) as error:
            await self._failed(cluster, "WorkloadClusterUnreachable", error)
        except (StatusError, SchemaError) as error:
            await self._failed(cluster, "ErrorStartingAPIImporter", error)
        else:
            await self._write(cluster, offers)
            self._done[name] = _version(cluster)
            self._untold[name] = Told(
                frozenset(import_name(offer.api, name) for offer in offers),
                f"not offered: {', '.join(missing)}" if missing else "",
            )
            await self._tell(cluster)

    async def _tell(self, cluster: Object) -> None:
        """Once it is settled what becomes of the imports: who looks at Ready wants to know what can be used."""
        name = cluster["metadata"]["name"]
        told = self._untold.get(name)
        if told is None:
            return
        found = {key[2]: obj for key, obj in self._imports.objects.items() if key[2] in told.imports}
        if len(found) == len(told.imports) and all(map(is_settled, found.values())):
            await self._report(cluster, Condition(workload.IMPORTER_READY, "True", "Imported", told.message))
            self._untold.pop(name, None)

    async def _pull(self, cluster: Object) -> tuple[list[Offer], list[str]]:
        client = (await kubeconfig_of(self._client, cluster)).client(self._connect)
        offers, missing = [], []
        try:
            for plural, group in self._wanted:
                if await native(self._client, plural, group) is not None:
                    continue
                offer = await pull(client, plural, group)
                if offer is None:
                    missing.append(f"{plural}.{group}" if group else plural)
                else:
                    offers.append(offer)
        finally:
            await client.close()
        return offers, missing

    async def _write(self, cluster: Object, offers: list[Offer]) -> None:
        mine = [found for found in self._imports.objects.values() if _is_of(found, cluster)]
        digests: dict[Api, str] = {
            api_of(found): found["spec"].get("schemaDigest", "") for found in self._negotiated.objects.values()
        }
        decision = decide(cluster, offers, mine, digests)
        for new in decision.create:
            try:
                await self._client.create(IMPORTS, new)
            except AlreadyExists:
                raise Later("an import of that name is still there") from None
        for changed in decision.update:
            await self._client.update(IMPORTS, changed)
        for gone in decision.delete:
            await self._client.delete(IMPORTS, gone["metadata"]["name"], uid=gone["metadata"]["uid"])

    async def _failed(self, cluster: Object, reason: str, error: Exception) -> None:
        """One that was imported stays so: whether it can be reached now is for its heartbeat to say."""
        if not condition_is(cluster, workload.IMPORTER_READY):
            said = str(error) or "no answer in time"
            await self._report(cluster, Condition(workload.IMPORTER_READY, "False", reason, said))
        raise Later(f"{reason}: {error}")

    async def _report(self, cluster: Object, condition: Condition) -> None:
        metadata = cluster["metadata"]
        await self._reporter.cluster(metadata["name"], metadata["uid"], [condition])


def _version(cluster: Object) -> tuple[str, int]:
    metadata = cluster["metadata"]
    return metadata["uid"], metadata.get("generation", 0)


def _is_of(found: Object, cluster: Object) -> bool:
    """Imports of a workload Cluster that had the same name are not: they go with it."""
    return any(owner["uid"] == cluster["metadata"]["uid"] for owner in found["metadata"].get("ownerReferences") or ())


def _is_dark(cluster: Object) -> bool:
    """Known not to answer; it comes back to the queue when that changes."""
    found = get_condition(cluster, workload.HEARTBEAT_HEALTHY)
    return found is not None and found["status"] != "True"
