"""Printer columns of PersistentVolumes, PersistentVolumeClaims, ResourceQuotas and LimitRanges."""

from __future__ import annotations

from typing import Any

from shoal.kinds.column import AGE, CREATED, UNSET, Cell, Column, field_cell, text_cell
from shoal.kinds.core.persistentvolume import STORAGE_CLASS_ANNOTATION

Object = dict[str, Any]

_MODES = (
    ("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP"),
)  # fmt: skip


def _access_modes(modes: Any) -> str:
    return ",".join(short for long, short in _MODES if long in (modes or ()))


def _phase(obj: Object, now: float) -> object:
    going = "deletionTimestamp" in obj["metadata"]
    return "Terminating" if going else (obj.get("status") or {}).get("phase") or ""


def _claim(volume: Object, now: float) -> object:
    claim = volume["spec"].get("claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


def _class(obj: Object, now: float) -> object:
    annotated = (obj["metadata"].get("annotations") or {}).get(STORAGE_CLASS_ANNOTATION)
    return annotated if annotated is not None else obj["spec"].get("storageClassName") or ""


def _only_if_bound(cell: Cell) -> Cell:
    """A claim's size and modes are meaningless before it has a volume."""
    return lambda claim, now: cell(claim, now) if claim["spec"].get("volumeName") else ""


def _usage(quota: Object, *, limits: bool) -> str:
    status = quota.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    names = sorted(name for name in hard if name.startswith("limits.") == limits)
    return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)


COLUMNS: dict[str, tuple[Column, ...]] = {
    "persistentvolumes": (
        Column("Capacity", cell=text_cell("spec", "capacity", "storage", otherwise="0")),
        Column("Access Modes", cell=lambda obj, now: _access_modes(obj["spec"].get("accessModes"))),
        Column("Reclaim Policy", cell=text_cell("spec", "persistentVolumeReclaimPolicy")),
        Column("Status", cell=_phase),
        Column("Claim", cell=_claim),
        Column("StorageClass", cell=_class),
        Column("VolumeAttributesClass", cell=field_cell("spec", "volumeAttributesClassName", otherwise=UNSET)),
        Column("Reason", cell=text_cell("status", "reason")),
        AGE,
        Column("VolumeMode", priority=1, cell=field_cell("spec", "volumeMode", otherwise=UNSET)),
    ),
    "persistentvolumeclaims": (
        Column("Status", cell=_phase),
        Column("Volume", cell=text_cell("spec", "volumeName")),
        Column("Capacity", cell=_only_if_bound(text_cell("status", "capacity", "storage", otherwise="0"))),
        Column(
            "Access Modes",
            cell=_only_if_bound(lambda obj, now: _access_modes((obj.get("status") or {}).get("accessModes"))),
        ),
        Column("StorageClass", cell=_class),
        Column("VolumeAttributesClass", cell=field_cell("spec", "volumeAttributesClassName", otherwise=UNSET)),
        AGE,
        Column("VolumeMode", priority=1, cell=field_cell("spec", "volumeMode", otherwise=UNSET)),
    ),
    "resourcequotas": (
        Column("Request", cell=lambda obj, now: _usage(obj, limits=False)),
        Column("Limit", cell=lambda obj, now: _usage(obj, limits=True)),
        AGE,
    ),
    "limitranges": (CREATED,),
}
