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
from shoal.client.reflector import Reflector
from shoal.client.requests import Client, Kind
from shoal.clock import Clock
from shoal.fleet.bundle.decide import Said
from shoal.fleet.bundle.objects import MANAGER, Id, id_of, selector
from shoal.fleet.resources import NAMESPACES, SECRETS
from shoal.objects.errors import NotFound, ShoalError
from shoal.runtime.loop import Later

log = logging.getLogger("shoal.fleet")

Object = dict[str, Any]
Connect = Callable[[Object], Client]
"""Creates a client from a parsed kubeconfig."""

PODS = Kind("", "v1", "pods")
KINDS = {
    "Namespace": NAMESPACES,
    "ServiceAccount": Kind("", "v1", "serviceaccounts"),
    "NetworkPolicy": Kind("networking.k8s.io", "v1", "networkpolicies"),
    "PersistentVolumeClaim": Kind("", "v1", "persistentvolumeclaims"),
    "Secret": SECRETS,
    "Deployment": Kind("apps", "v1", "deployments"),
    "ConfigMap": Kind("", "v1", "configmaps"),
    "Service": Kind("", "v1", "services"),
    "Role": Kind("rbac.authorization.k8s.io", "v1", "roles"),
    "RoleBinding": Kind("rbac.authorization.k8s.io", "v1", "rolebindings"),
    "PodDisruptionBudget": Kind("policy", "v1", "poddisruptionbudgets"),
}
"""Resources that a bundle of any version may contain: those of other versions are listed in order to be pruned."""


LISTED_SECONDS = 20.0


class Refused(ShoalError):
    """The cluster cannot be used; carries the condition to report."""

    def __init__(self, said: Said) -> None:
        super().__init__(said.message)
        self.said = said


class Site:
    def __init__(self, client: Client, clock: Clock, worker: str, digest: str, changed: Callable[[], None]) -> None:
        self.client, self.digest, self._clock, self._since = client, digest, clock, clock.monotonic()
        labels = selector(worker)
        self._views = {
            name: Reflector(client, kind, clock, lambda key, obj: changed(), labels=labels, listed=changed)
            for name, kind in KINDS.items()
        }
        self._task = asyncio.create_task(self._run(), name=f"bundle of {worker}")

    async def _run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for view in self._views.values():
                    group.create_task(view.run())
        except* Exception:
            log.exception("the views of a cluster ended; they are begun anew")

    @property
    def ended(self) -> bool:
        return self._task.done()

    def check_listed(self) -> None:
        """Raises RequeueError until every informer has synced, BundleBlocked if that takes too long."""
        late = [name for name, view in self._views.items() if not view.synced]
        if late and self._clock.monotonic() - self._since > LISTED_SECONDS:
            message = f"it could not be listed in its cluster: {', '.join(late)}; its kubeconfig must be allowed to"
            raise Refused(Said("False", "AccessRefused", message))
        if late:
            raise Later("what is in the cluster has not been listed yet")

    @property
    def found(self) -> dict[Id, Object]:
        """All objects with the labels of the bundle."""
        # Items of a list do not carry their kind.
        objects = ({**obj, "kind": name} for name, view in self._views.items() for obj in view.objects.values())
        return {id_of(obj): obj for obj in objects}

    async def get(self, kind: str, name: str, namespace: str = "") -> Object | None:
        try:
            return await self.client.get(KINDS[kind], name, namespace)
        except NotFound:
            return None

    async def apply(self, obj: Object) -> None:
        """Overwrites changes that others made to the bundle's fields."""
        await self.client.apply(KINDS[obj["kind"]], obj, MANAGER, force=True)

    async def delete(self, obj: Object) -> None:
        kind, namespace, name = id_of(obj)
        try:
            await self.client.delete(KINDS[kind], name, namespace, uid=obj["metadata"]["uid"])
        except NotFound:
            return

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.client.close()


class Sites:
    """One RemoteCluster per Worker. `run` closes them all when the controller ends."""

    def __init__(self, clock: Clock, connect: Connect) -> None:
        self._clock, self._connect = clock, connect
        self._sites: dict[str, Site] = {}

    async def run(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            for name in list(self._sites):
                await self.drop(name)

    async def at(self, worker: str, secret: Object, key: str, changed: Callable[[], None]) -> Site:
        """Returns the cluster that the kubeconfig in the Secret points to. Raises BundleBlocked."""
        data = (secret.get("data") or {}).get(key) or ""
        digest = hashlib.sha256(data.encode()).hexdigest()
        site = self._sites.get(worker)
        if site is not None and site.digest == digest and not site.ended:
            return site
        await self.drop(worker)
        where = f"key {key!r} of Secret {secret['metadata']['namespace']}/{secret['metadata']['name']}"
        if not data:
            raise Refused(Said("False", "NoKubeconfig", f"there is no {where}"))
        client = _client(data, where, self._connect)
        self._sites[worker] = made = Site(client, self._clock, worker, digest, changed)
        return made

    async def drop(self, worker: str) -> None:
        site = self._sites.pop(worker, None)
        if site is not None:
            await site.close()


def _client(data: str, where: str, connect: Connect) -> Client:
    try:
        return connect(parse(base64.b64decode(data).decode(), "the kubeconfig"))
    except (KubeconfigError, binascii.Error, ValueError, LookupError, TypeError, AttributeError, ssl.SSLError):
        # Without the error text: it may quote the kubeconfig.
        message = (
            f"{where} is no kubeconfig that can be used: it needs an https server, and a token or a client "
            "certificate inside it"
        )
        raise Refused(Said("False", "InvalidKubeconfig", message)) from None
