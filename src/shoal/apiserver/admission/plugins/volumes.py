"""Sets the default storage class and the protection finalizer of new claims and volumes.

Checks that a claim's class allows expansion.
"""

from __future__ import annotations

from typing import Any

from shoal.apiserver.authz.rbac import forbidden_object
from shoal.apiserver.server import RequestContext, ServerComponents
from shoal.kinds.core.persistentvolume import CLAIM_PROTECTION_FINALIZER, VOLUME_PROTECTION_FINALIZER, storage_class_of
from shoal.kinds.core.persistentvolumeclaim import is_expanded
from shoal.kinds.storage.storage import default_storage_class_name

Object = dict[str, Any]

NOT_EXPANDABLE_MESSAGE = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
)
PROTECTION_FINALIZERS = {
    "persistentvolumeclaims": CLAIM_PROTECTION_FINALIZER,
    "persistentvolumes": VOLUME_PROTECTION_FINALIZER,
}


def admit(server: ServerComponents, ctx: RequestContext, new: Object, old: Object | None) -> None:
    """Only in clusters with volume controllers: elsewhere nothing would remove the finalizer."""
    if ctx.cluster.profile != "cluster":
        return
    if old is not None:
        if ctx.resource.plural == "persistentvolumeclaims" and not ctx.info.subresource and is_expanded(new, old):
            _check_expansion(server, ctx, new, old)
        return
    finalizers = new["metadata"].get("finalizers") or []
    protection = PROTECTION_FINALIZERS[ctx.resource.plural]
    if protection not in finalizers:
        new["metadata"]["finalizers"] = [*finalizers, protection]
    if ctx.resource.plural == "persistentvolumeclaims" and storage_class_of(new) is None:
        table = server.cache.resource_cache("storage.k8s.io", "storageclasses").table(ctx.info.cluster)
        name = default_storage_class_name(entry.object() for entry in table.select(""))
        if name:
            new["spec"]["storageClassName"] = name


def _check_expansion(server: ServerComponents, ctx: RequestContext, new: Object, old: Object) -> None:
    """Rejects an expansion the claim's class does not allow."""
    name = storage_class_of(new)
    entry = (
        server.cache.resource_cache("storage.k8s.io", "storageclasses").get(ctx.info.cluster, "", name)
        if name
        else None
    )
    if entry is None or name != storage_class_of(old) or not entry.object().get("allowVolumeExpansion"):
        raise forbidden_object("", "persistentvolumeclaims", ctx.name, NOT_EXPANDABLE_MESSAGE)
