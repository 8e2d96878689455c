"""The cluster of a Worker: a client and informers of the objects that carry the bundle's labels.

The kubeconfig is the hub's secret: nothing here shows it, or says more of a failure than where the kubeconfig is.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import logging
import ssl
from collections.abc import Callable
from typing import Any

from shoal.client.kubeconfig import KubeconfigError, parse
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock
from shoal.fleet.bundle.decide import BundleCondition
from shoal.fleet.bundle.objects import FIELD_MANAGER, ObjectId, bundle_selector, object_id
from shoal.fleet.resources import NAMESPACES, SECRETS
from shoal.objects.errors import NotFound, ShoalError
from shoal.runtime.controller import RequeueError
from shoal.runtime.informer import Informer

log = logging.getLogger("shoal.fleet")

Object = dict[str, Any]
Connect = Callable[[Object], Client]
"""Creates a client from a parsed kubeconfig."""

PODS = GroupVersionResource("", "v1", "pods")
BUNDLE_RESOURCES = {
    "Namespace": NAMESPACES,
    "ServiceAccount": GroupVersionResource("", "v1", "serviceaccounts"),
    "NetworkPolicy": GroupVersionResource("networking.k8s.io", "v1", "networkpolicies"),
    "PersistentVolumeClaim": GroupVersionResource("", "v1", "persistentvolumeclaims"),
    "Secret": SECRETS,
    "Deployment": GroupVersionResource("apps", "v1", "deployments"),
    "ConfigMap": GroupVersionResource("", "v1", "configmaps"),
    "Service": GroupVersionResource("", "v1", "services"),
    "Role": GroupVersionResource("rbac.authorization.k8s.io", "v1", "roles"),
    "RoleBinding": GroupVersionResource("rbac.authorization.k8s.io", "v1", "rolebindings"),
    "PodDisruptionBudget": GroupVersionResource("policy", "v1", "poddisruptionbudgets"),
}
"""Resources that a bundle of any version may contain: those of other versions are listed in order to be pruned."""


LIST_TIMEOUT_SECONDS = 20.0


class BundleBlocked(ShoalError):
    """The cluster cannot be used; carries the condition to report."""

    def __init__(self, condition: BundleCondition) -> None:
        super().__init__(condition.message)
        self.condition = condition


class RemoteCluster:
    def __init__(self, client: Client, clock: Clock, worker: str, digest: str, on_change: Callable[[], None]) -> None:
        self.client, self.digest, self._clock, self._started_at = client, digest, clock, clock.monotonic()
        labels = bundle_selector(worker)
        self._informers = {
            name: Informer(client, kind, clock, labels=labels) for name, kind in BUNDLE_RESOURCES.items()
        }
        for informer in self._informers.values():
            informer.add_event_handler(lambda key, old, new: on_change())
            informer.on_sync(on_change)
        self._task = asyncio.create_task(self._run(), name=f"bundle of {worker}")

    async def _run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for informer in self._informers.values():
                    group.create_task(informer.run())
        except* Exception:
            log.exception("informers of a cluster with a bundle failed; restarting them")

    @property
    def has_ended(self) -> bool:
        return self._task.done()

    def check_synced(self) -> None:
        """Raises RequeueError until every informer has synced, BundleBlocked if that takes too long."""
        missing = [name for name, view in self._informers.items() if not view.has_synced]
        if missing and self._clock.monotonic() - self._started_at > LIST_TIMEOUT_SECONDS:
            message = f"cannot list in the cluster: {', '.join(missing)}; the kubeconfig needs permission to list them"
            raise BundleBlocked(BundleCondition("False", "AccessRefused", message))
        if missing:
            raise RequeueError("informers of the cluster have not synced yet")

    @property
    def bundle_objects(self) -> dict[ObjectId, Object]:
        """All objects with the labels of the bundle."""
        # Items of a list do not carry their kind.
        objects = ({**obj, "kind": name} for name, view in self._informers.items() for obj in view.objects.values())
        return {object_id(obj): obj for obj in objects}

    async def get(self, kind: str, name: str, namespace: str = "") -> Object | None:
        try:
            return await self.client.get(BUNDLE_RESOURCES[kind], name, namespace)
        except NotFound:
            return None

    async def apply(self, obj: Object) -> None:
        """Overwrites changes that others made to the bundle's fields."""
        await self.client.apply(BUNDLE_RESOURCES[obj["kind"]], obj, FIELD_MANAGER, force=True)

    async def delete(self, obj: Object) -> None:
        kind, namespace, name = object_id(obj)
        try:
            await self.client.delete(BUNDLE_RESOURCES[kind], name, namespace, uid=obj["metadata"]["uid"])
        except NotFound:
            return

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.client.close()


class RemoteClusters:
    """One RemoteCluster per Worker. `run` closes them all when the controller ends."""

    def __init__(self, clock: Clock, connect: Connect) -> None:
        self._clock, self._connect = clock, connect
        self._clusters: dict[str, RemoteCluster] = {}

    async def run(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            for name in list(self._clusters):
                await self.drop(name)

    async def get_or_connect(
        self, worker: str, secret: Object, key: str, on_change: Callable[[], None]
    ) -> RemoteCluster:
        """Returns the cluster that the kubeconfig in the Secret points to. Raises BundleBlocked."""
        data = (secret.get("data") or {}).get(key) or ""
        digest = hashlib.sha256(data.encode()).hexdigest()
        cluster = self._clusters.get(worker)
        if cluster is not None and cluster.digest == digest and not cluster.has_ended:
            return cluster
        await self.drop(worker)
        where = f"key {key!r} of Secret {secret['metadata']['namespace']}/{secret['metadata']['name']}"
        if not data:
            raise BundleBlocked(BundleCondition("False", "NoKubeconfig", f"{where} not found"))
        client = _connect_kubeconfig(data, where, self._connect)
        self._clusters[worker] = created = RemoteCluster(client, self._clock, worker, digest, on_change)
        return created

    async def drop(self, worker: str) -> None:
        cluster = self._clusters.pop(worker, None)
        if cluster is not None:
            await cluster.close()


def _connect_kubeconfig(data: str, where: str, connect: Connect) -> Client:
    try:
        return connect(parse(base64.b64decode(data).decode(), "the kubeconfig"))
    except (KubeconfigError, binascii.Error, ValueError, LookupError, TypeError, AttributeError, ssl.SSLError):
        # Without the error text: it may quote the kubeconfig.
        message = (
            f"{where} is not a usable kubeconfig: it must have an https server, and an inline token or client "
            "certificate"
        )
        raise BundleBlocked(BundleCondition("False", "InvalidKubeconfig", message)) from None
