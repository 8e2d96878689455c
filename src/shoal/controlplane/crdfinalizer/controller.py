"""Deletes a CustomResourceDefinition's instances before it is removed, and retries names that were not accepted."""

from __future__ import annotations

from typing import Any

from shoal.client.reflector import Key
from shoal.client.rest import Client, GroupVersionResource
from shoal.clock import Clock
from shoal.kinds.apiextensions.customresourcedefinition import CLEANUP_FINALIZER
from shoal.objects.conditions import condition_is
from shoal.objects.errors import NotFound
from shoal.runtime.controller import Controller, new_kind_controller
from shoal.runtime.informer import Informer


def needs_cleanup(crd: Object) -> bool:
    metadata = crd["metadata"]
    return "deletionTimestamp" in metadata and CLEANUP_FINALIZER in (metadata.get("finalizers") or ())


def lacks_accepted_names(crd: Object) -> bool:
    return not condition_is(crd, "NamesAccepted")


def needs_reconcile(crd: Object) -> bool:
    return needs_cleanup(crd) or lacks_accepted_names(crd)


def without_finalizer(crd: Object) -> Object:
    metadata = crd["metadata"]
    kept = [finalizer for finalizer in metadata["finalizers"] if finalizer != CLEANUP_FINALIZER]
    return {**crd, "metadata": {**metadata, "finalizers": kept}}


Object = dict[str, Any]

CRDS = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)
RETRY_SECONDS = 1.0


def new_crd_finalizer_controller(client: Client, clock: Clock) -> Controller[Key]:
    reconciler = CRDFinalizerReconciler(client)
    crds = Informer(client.in_cluster("*"), CRDS, clock)
    return new_kind_controller("definitions", crds, clock, needs_reconcile, reconciler.reconcile)


class CRDFinalizerReconciler:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def reconcile(self, key: Key, cached: Object) -> float | None:
        cluster, _, name = key
        client = self._client.in_cluster(cluster)
        try:
            crd = await client.get(CRDS, name)
        except NotFound:
            return None
        if needs_cleanup(crd):
            if await self._delete_instances(client, crd):
                return RETRY_SECONDS
            await client.update(CRDS, without_finalizer(crd))
            return None
        if lacks_accepted_names(crd):
            # Any write makes the server check the names again; it accepts them as soon as they are free.
            await client.update(CRDS, crd, "status")
            return RETRY_SECONDS
        return None

    async def _delete_instances(self, client: Client, crd: Object) -> bool:
        """Deletes all instances. Returns whether some remain because of their finalizers."""
        spec = crd["spec"]
        served = [version["name"] for version in spec["versions"] if version.get("served")]
        if not served:
            return False
        kind = GroupVersionResource(spec["group"], served[0], spec["names"]["plural"], spec["scope"] == "Namespaced")
        try:
            instances, _ = await client.list_all(kind)
            if not instances:
                return False
            for namespace in {obj["metadata"].get("namespace", "") for obj in instances}:
                await client.delete_all(kind, namespace)
            instances, _ = await client.list_all(kind)
        except NotFound:
            return False
        return bool(instances)
