"""Volumes that CSI drivers attach to nodes, and how many of each driver a node takes (CSINode). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shoal.kinds.core.persistentvolume import PROVISIONED_BY

Object = dict[str, Any]
Attachment = tuple[str, str]
"""Driver and volume. A volume that several pods of a node use is attached once."""


def attachment_of(claim: Object, volume: Object | None, storage_class: Object | None) -> Attachment | None:
    """Returns the attachment of a claim: by its bound volume, or by the class that will provide one. None: no driver is
    known for it.
    """
    metadata = claim["metadata"]
    if volume is None:
        driver = (storage_class or {}).get("provisioner") or ""
        return (driver, f"{metadata.get('namespace', '')}/{metadata['name']}") if driver else None
    source = (volume.get("spec") or {}).get("csi") or {}
    driver = source.get("driver") or (volume["metadata"].get("annotations") or {}).get(PROVISIONED_BY) or ""
    return (driver, source.get("volumeHandle") or volume["metadata"]["name"]) if driver else None


def attach_limits(csi_node: Object) -> dict[str, int]:
    """Returns the maximum number of volumes by driver. Drivers without a limit are left out."""
    limits = {}
    for each in (csi_node.get("spec") or {}).get("drivers") or ():
        count = (each.get("allocatable") or {}).get("count")
        if count is not None:
            limits[str(each.get("name"))] = int(count)
    return limits


def exceeds_limits(limits: Mapping[str, int], attached: Iterable[Attachment], more: Iterable[Attachment]) -> bool:
    """`attached`: what the node has; `more`: what a pod adds. A node that is over a limit already takes pods that add
    nothing.
    """
    if not limits:
        return False
    present = set(attached)
    added = {each for each in more if each not in present}
    return any(
        sum(each[0] == driver for each in present) + sum(each[0] == driver for each in added) > limit
        for driver, limit in limits.items()
        if any(each[0] == driver for each in added)
    )
