"""Reports the status of each hosted ManagedCluster to the hub, after publishing its kubeconfig."""

from __future__ import annotations

import base64
from typing import Any
from zlib import crc32

import yaml

from shoal.clock import Clock, rfc3339
from shoal.fleet.bus.interface import Bus, BusMessage, KubeconfigSecretConflict, Name, StatusReport
from shoal.fleet.resources import MANAGED_CLUSTERS, SECRETS
from shoal.fleet.worker.hosting.objects import is_pool_object
from shoal.fleet.worker.informers import (
    CLUSTERS,
    EMBEDDED_CLUSTERS,
    KIND_CLUSTERS,
    MACHINE_DEPLOYMENTS,
    WorkerInformers,
)
from shoal.fleet.worker.kind.objects import TOKEN, secret_value
from shoal.fleet.worker.registration.controller import WorkerRegistration
from shoal.fleet.worker.reporter.decide import (
    HostedState,
    access_condition,
    cluster_status,
    failed_status,
    is_provisioned,
)
from shoal.fleet.worker.reporter.kind_status import kind_cluster_status
from shoal.fleet.worker.restore.decide import with_restored_condition
from shoal.fleet.worker.settings import WorkerSettings
from shoal.fleet.worker.subscriber.decide import version_of
from shoal.kinds.fleet import infrav1, kindhosting, nodepools
from shoal.objects.errors import NotFound
from shoal.runtime.controller import Controller, RequeueError


class TokenBucket:
    """Lets the first `burst` calls pass at once, then `per_second` calls a second."""

    def __init__(self, clock: Clock, per_second: float, burst: int) -> None:
        self._clock, self._interval, self._credit = clock, 1 / per_second, burst / per_second
        self._next_slot = clock.monotonic() - self._credit

    async def wait(self) -> None:
        now = self._clock.monotonic()
        self._next_slot = max(self._next_slot, now - self._credit) + self._interval
        if self._next_slot > now:
            await self._clock.sleep(self._next_slot - now)


def hub_kubeconfig(secret: Object, name: str, server: str, worker: WorkerSettings) -> str:
    """Returns the provider's kubeconfig with the hub's stable address as server. Raises ValueError if it is not a
    kubeconfig.
    """
    try:
        text = base64.b64decode((secret.get("data") or {})["value"], validate=True)
        config = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        (user,) = (user["user"] for user in config["users"])
    except (KeyError, TypeError, ValueError, yaml.YAMLError):
        raise ValueError(f"Secret {secret['metadata']['name']} has no kubeconfig with exactly one user") from None
    return kubeconfig_text(name, server, user, worker)


def kubeconfig_text(name: str, server: str, user: Object, worker: WorkerSettings) -> str:
    """Returns a kubeconfig with the hub's certificate authority."""
    cluster = {"server": server}
    if worker.hub_ca:
        cluster["certificate-authority-data"] = base64.b64encode(worker.hub_ca.encode()).decode()
    if worker.hub_server_name:
        cluster["tls-server-name"] = worker.hub_server_name
    context = {"cluster": name, "user": f"{name}-admin"}
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "contexts": [{"name": name, "context": context}],
        "current-context": name,
        "users": [{"name": f"{name}-admin", "user": user}],
    }
    return str(yaml.dump(kubeconfig, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), sort_keys=False))


Object = dict[str, Any]

WRITES_PER_SECOND, WRITE_BURST = 200.0, 200
"""After a long disconnection everything may differ at once."""
VERIFY_SECONDS = 3600.0
"""How often the hub's kubeconfig of a cluster is checked while nothing changes: somebody may have deleted it."""


class StatusReporter:
    def __init__(
        self,
        clock: Clock,
        bus: Bus,
        informers: WorkerInformers,
        registration: WorkerRegistration,
        settings: WorkerSettings,
    ) -> None:
        self._clock, self._bus, self._informers, self._settings = clock, bus, informers, settings
        self._registration = registration
        self._rate_limiter = TokenBucket(clock, WRITES_PER_SECOND, WRITE_BURST)
        self._verified_at: dict[Name, float] = {}
        """When the hub's kubeconfig of each was last checked, or is assumed to have been."""
        self._kubeconfigs: dict[Name, tuple[str, str]] = {}
        """Kubeconfigs for the hub, with the revision of the Secret each was built from."""
        self.controller: Controller[Name] = Controller("fleet-reporter", clock, self.reconcile)
        bus.add_event_handler(self.controller.queue.add)
        informers.add_event_handler(self.controller.queue.add)

    async def reconcile(self, name: Name) -> float | None:
        if not self._informers.has_synced:
            raise RequeueError("informers of the worker's own API have not synced yet")
        message, copy = self._bus.latest(name), self._informers.get(MANAGED_CLUSTERS, *name)
        if message is None or message.deleting or copy is None:
            self._verified_at.pop(name, None)
            self._kubeconfigs.pop(name, None)
            return None
        if not self._bus.is_live:
            return None  # When it is live again, all are reconciled, and what differs is reported then.
        if not self._registration.joined.is_set():
            raise RequeueError("the worker has not joined the hub")
        version = version_of(copy)
        if (version.uid, version.epoch) != (message.version.uid, message.version.epoch):
            return None  # The subscriber has not caught up; its write triggers another reconcile.
        now = rfc3339(self._clock.now())
        try:
            hosted_state = self._hosted_state(name, copy)
        except ValueError as error:
            await self._send_report(
                message, StatusReport(failed_status(message.managed, infrav1.BROKEN_KUBECONFIG, str(error), now))
            )
            return None
        status = self._status(message.managed, hosted_state, now)
        remaining = self._seconds_until_verify(name)
        try:
            await self._send_report(
                message, StatusReport(status, hosted_state.kubeconfig, verify_kubeconfig=remaining <= 0)
            )
        except KubeconfigSecretConflict as conflict:
            await self._send_report(
                message, StatusReport(failed_status(message.managed, infrav1.SECRET_TAKEN, str(conflict), now))
            )
            raise RequeueError(str(conflict)) from None
        if remaining <= 0:
            self._verified_at[name] = self._clock.monotonic()
        return remaining if remaining > 0 else VERIFY_SECONDS

    def _status(self, managed: Object, hosted_state: HostedState, now: str) -> Object:
        kind = self._settings.kind
        if kindhosting.is_kind(managed) and kind is not None:
            return kind_cluster_status(managed, hosted_state, kind.images, now)
        return cluster_status(with_restored_condition(managed, now), hosted_state, self._settings, now)

    def _seconds_until_verify(self, name: Name) -> float:
        """Seconds until the next check. After a start they are spread over the hour."""
        now = self._clock.monotonic()
        fraction = crc32("/".join(name).encode()) % 1000 / 1000
        return self._verified_at.setdefault(name, now - fraction * VERIFY_SECONDS) + VERIFY_SECONDS - now

    async def _send_report(self, message: BusMessage, status_report: StatusReport) -> None:
        if status_report.status != infrav1.status_of(message.managed):
            await self._rate_limiter.wait()
            if self._bus.latest(message.name) is not message:
                return  # Superseded while it waited; the newer message is reconciled next.
        try:
            await self._bus.report(message, status_report)
        except NotFound:
            return  # The hub has deleted it meanwhile; a message will follow.

    def _hosted_state(self, name: Name, copy: Object) -> HostedState:
        namespace, cluster_name = name
        cluster = self._informers.get(CLUSTERS, namespace, cluster_name)
        if kindhosting.is_kind(copy):
            return self._kind_state(name, copy, cluster)
        secret = self._informers.get(SECRETS, namespace, infrav1.kubeconfig_secret_name(cluster_name))
        kubeconfig = ""
        if secret is not None and is_provisioned(cluster):
            kubeconfig = self._kubeconfig(name, secret)
        pools = {
            obj["metadata"]["labels"][nodepools.NODE_POOL_LABEL]: obj
            for (plural, _), obj in self._informers.hosting_objects(name).items()
            if plural == MACHINE_DEPLOYMENTS.resource and is_pool_object(obj)
        }
        control_plane = self._informers.get(EMBEDDED_CLUSTERS, namespace, cluster_name)
        return HostedState(cluster, kubeconfig, control_plane, pools, access_condition(copy))

    def _kind_state(self, name: Name, copy: Object, cluster: Object | None) -> HostedState:
        """The kubeconfig of kind has the certificate of its administrator, which stays here: the hub gets a token."""
        secret = self._informers.get(SECRETS, name[0], kindhosting.access_secret_name(name[1]))
        token, kubeconfig = secret_value(secret, TOKEN).decode(errors="replace"), ""
        if token and is_provisioned(cluster):
            server = self._settings.hub_url + infrav1.managed_cluster_path(*name)
            kubeconfig = kubeconfig_text(name[1], server, {"token": token}, self._settings)
        kind_cluster = self._informers.get(KIND_CLUSTERS, *name)
        return HostedState(cluster, kubeconfig, kind_cluster, {}, access_condition(copy), copy)

    def _kubeconfig(self, name: Name, secret: Object) -> str:
        """Returns the kubeconfig for the hub. Cached, because all clusters are reported again when a link comes
        back.
        """
        revision = str(secret["metadata"]["resourceVersion"])
        cached_revision, text = self._kubeconfigs.get(name, ("", ""))
        if cached_revision != revision:
            server = self._settings.hub_url + infrav1.managed_cluster_path(*name)
            text = hub_kubeconfig(secret, name[1], server, self._settings)
            self._kubeconfigs[name] = revision, text
        return text
