"""What new claims and volumes of a cluster get: a storage class, and a finalizer that keeps what is used."""

from __future__ import annotations

from typing import Any

from shoal.apiserver.core import Call, Core
from shoal.kinds.storage import default_class
from shoal.kinds.volumes import CLAIM_PROTECTION, VOLUME_PROTECTION, class_of

Object = dict[str, Any]

PROTECTIONS = {"persistentvolumeclaims": CLAIM_PROTECTION, "persistentvolumes": VOLUME_PROTECTION}


def admit(core: Core, call: Call, new: Object, old: Object | None) -> None:
    """Only where loops look after volumes: elsewhere nobody would take the finalizer off."""
    if old is not None or call.cluster.profile != "cluster":
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
