"""Strategies and printer columns of the kinds of storage.k8s.io/v1."""

from __future__ import annotations

from typing import Any

from shoal.kinds.column import (
    AGE,
    CREATED,
    NONE,
    UNSET,
    Column,
    count_cell,
    default_class_name_column,
    field_cell,
    joined_list_cell,
)
from shoal.kinds.storage import storage
from shoal.kinds.strategy import Strategy

Object = dict[str, Any]

STRATEGIES: dict[str, Strategy] = {
    "storageclasses.storage.k8s.io": Strategy(
        default=storage.default_storage_class,
        validate=storage.validate_storage_class,
        warnings=storage.warn_storage_class,
    ),
    "volumeattributesclasses.storage.k8s.io": Strategy(validate=storage.validate_volume_attributes_class),
    "volumeattachments.storage.k8s.io": Strategy(
        allow_unconditional_update=False,
        default=storage.default_volume_attachment,
        validate=storage.validate_volume_attachment,
    ),
    "csidrivers.storage.k8s.io": Strategy(
        allow_unconditional_update=False,
        default=storage.default_csi_driver,
        prepare_for_create=storage.prepare_csi_driver_create,
        prepare_for_update=storage.prepare_csi_driver_update,
        validate=storage.validate_csi_driver,
        warnings=storage.warn_csi_driver,
    ),
    "csinodes.storage.k8s.io": Strategy(
        allow_unconditional_update=False,
        default=storage.default_csi_node,
        prepare_for_create=storage.canonicalize_csi_node,
        prepare_for_update=storage.canonicalize_csi_node,
        validate=storage.validate_csi_node,
    ),
    "csistoragecapacities.storage.k8s.io": Strategy(
        allow_unconditional_update=False,
        default=storage.default_csi_storage_capacity,
        validate=storage.validate_csi_storage_capacity,
        warnings=storage.warn_csi_storage_capacity,
    ),
}


def _audiences(obj: Object, now: float) -> object:
    requests = obj["spec"].get("tokenRequests")
    return UNSET if requests is None else ",".join(request.get("audience", "") for request in requests)


COLUMNS: dict[str, tuple[Column, ...]] = {
    "storageclasses.storage.k8s.io": (
        default_class_name_column("storageclass.kubernetes.io/is-default-class"),
        Column("Provisioner", cell=field_cell("provisioner")),
        Column("ReclaimPolicy", cell=field_cell("reclaimPolicy")),
        Column("VolumeBindingMode", cell=field_cell("volumeBindingMode")),
        Column("AllowVolumeExpansion", cell=field_cell("allowVolumeExpansion", otherwise=False)),
        AGE,
    ),
    "volumeattributesclasses.storage.k8s.io": (Column("DriverName", cell=field_cell("driverName")), AGE),
    "volumeattachments.storage.k8s.io": (
        Column("Attacher", format="name", cell=field_cell("spec", "attacher")),
        Column("PV", cell=field_cell("spec", "source", "persistentVolumeName", otherwise="")),
        Column("Node", cell=field_cell("spec", "nodeName")),
        Column("Attached", type="boolean", cell=field_cell("status", "attached", otherwise=False)),
        AGE,
    ),
    "csidrivers.storage.k8s.io": (
        Column("AttachRequired", type="boolean", cell=field_cell("spec", "attachRequired", otherwise=True)),
        Column("PodInfoOnMount", type="boolean", cell=field_cell("spec", "podInfoOnMount", otherwise=False)),
        Column("StorageCapacity", type="boolean", cell=field_cell("spec", "storageCapacity", otherwise=False)),
        Column("TokenRequests", cell=_audiences),
        Column("RequiresRepublish", type="boolean", cell=field_cell("spec", "requiresRepublish", otherwise=False)),
        Column("Modes", cell=joined_list_cell("spec", "volumeLifecycleModes", otherwise=NONE)),
        AGE,
    ),
    "csinodes.storage.k8s.io": (Column("Drivers", type="integer", cell=count_cell("spec", "drivers")), AGE),
    "csistoragecapacities.storage.k8s.io": (CREATED,),
}
