"""Sets the default storage class and the protection finalizer of new claims and volumes.

Checks that a claim's class allows expansion.
"""

from __future__ import annotations

from typing import Any

from shoal.apiserver.authz.rbac import forbidden_object
from shoal.apiserver.core import Call, Core
from shoal.kinds.claims import grows
from shoal.kinds.storage import default_class
from shoal.kinds.volumes import CLAIM_PROTECTION, VOLUME_PROTECTION, class_of

Object = dict[str, Any]

FIXED = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
)
PROTECTIONS = {"persistentvolumeclaims": CLAIM_PROTECTION, "persistentvolumes": VOLUME_PROTECTION}


def admit(core: Core, call: Call, new: Object, old: Object | None) -> None:
    """Only in clusters with volume controllers: elsewhere nothing would remove the finalizer."""
    if call.cluster.profile != "cluster":
        return
    if old is not None:
        if call.resource.plural == "persistentvolumeclaims" and not call.target.subresource and grows(new, old):
            _check_growth(core, call, new, old)
        return
    finalizers = new["metadata"].get("finalizers") or []
    protection = PROTECTIONS[call.resource.plural]
    if protection not in finalizers:
        new["metadata"]["finalizers"] = [*finalizers, protection]
    if call.resource.plural == "persistentvolumeclaims" and class_of(new) is None:
        table = core.cache.kind("storage.k8s.io", "storageclasses").table(call.target.cluster)
        name = default_class(entry.object() for entry in table.select(""))
        if name:
            new["spec"]["storageClassName"] = name


def _check_growth(core: Core, call: Call, new: Object, old: Object) -> None:
    """Rejects an expansion the claim's class does not allow."""
    name = class_of(new)
    entry = core.cache.kind("storage.k8s.io", "storageclasses").get(call.target.cluster, "", name) if name else None
    if entry is None or name != class_of(old) or not entry.object().get("allowVolumeExpansion"):
        raise forbidden_object("", "persistentvolumeclaims", call.name, FIXED)
