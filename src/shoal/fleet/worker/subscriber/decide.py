"""Decides what a message of the hub does to the copy in the worker's own root. Pure.

The copy carries the version of the message it was built from, so that a restarted worker still recognises an old
message.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from shoal.fleet.bus.decide import is_stale
from shoal.fleet.bus.interface import BusMessage, MessageVersion
from shoal.kinds.fleet import infrav1, migration
from shoal.kinds.fleet.endpoint import ENDPOINT_ANNOTATION, endpoint_from_annotation, endpoint_of
from shoal.objects import mergepatch

Object = dict[str, Any]

HUB_ANNOTATION, UID_ANNOTATION = "shoal.dev/hub", infrav1.HUB_UID_ANNOTATION
GENERATION_ANNOTATION, EPOCH_ANNOTATION, REVISION_ANNOTATION = (
    "shoal.dev/hub-generation",
    "shoal.dev/epoch",
    "shoal.dev/hub-revision",
)
"""Annotations of the copy: the id of its hub, and the version of the message."""


class CopyAction(Enum):
    NOTHING = "nothing"
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    ACKNOWLEDGE = "acknowledge"


@dataclass(frozen=True, slots=True)
class CopyDecision:
    action: CopyAction
    copy: Object | None = None
    """The object to create, or the patch to update with."""


def decide(message: BusMessage, copy: Object | None, hub_id: str) -> CopyDecision:
    """`hub_id` is the id of the hub that sent it."""
    if needs_restore(message, copy):
        return CopyDecision(CopyAction.NOTHING)  # Everything is restored at once, including the copy.
    if copy is None:
        # The worker's own store is the truth about what it hosts: without a copy it hosts nothing.
        return (
            CopyDecision(CopyAction.ACKNOWLEDGE)
            if message.deleting
            else CopyDecision(CopyAction.CREATE, new_copy(message, hub_id))
        )
    copy_version = version_of(copy)
    if infrav1.is_deleting(copy):
        return CopyDecision(CopyAction.NOTHING)  # Its deletion triggers another reconcile.
    if hub_id_of(copy) == hub_id and is_stale(copy_version, message.version):
        return CopyDecision(CopyAction.NOTHING)  # Revisions of two hubs cannot be compared.
    if message.deleting or copy_version.uid != message.version.uid:
        return CopyDecision(CopyAction.DELETE)  # Another uid: the hub has a new object of that name.
    endpoint = endpoint_of(message.managed)
    if (
        copy_version.epoch == message.version.epoch
        and infrav1.spec_of(copy) == infrav1.spec_of(message.managed)
        and endpoint_from_annotation(copy) == endpoint
    ):
        return CopyDecision(CopyAction.NOTHING)
    address = {ENDPOINT_ANNOTATION: str(endpoint) if endpoint is not None else None}
    patch = {
        "metadata": {
            "annotations": {**version_annotations(message.version, hub_id), **address},
            "resourceVersion": copy["metadata"]["resourceVersion"],
        },
        "spec": mergepatch.create(infrav1.spec_of(copy), infrav1.spec_of(message.managed)),
    }
    return CopyDecision(CopyAction.UPDATE, patch)


def needs_restore(message: BusMessage, copy: Object | None) -> bool:
    """True if the hub wants the state that another worker had and it is not here yet; also if it is to be deleted and
    the copy is from before that.
    """
    if not migration.restore_source(message.managed) or (message.deleting and copy is None):
        return False
    version = version_of(copy) if copy is not None else None
    return version is None or (version.uid == message.version.uid and version.epoch < message.version.epoch)


def new_copy(message: BusMessage, hub_id: str) -> Object:
    namespace, name = message.name
    endpoint = endpoint_of(message.managed)
    address = {ENDPOINT_ANNOTATION: str(endpoint)} if endpoint is not None else {}
    return {
        "apiVersion": infrav1.API_VERSION,
        "kind": infrav1.MANAGED_CLUSTER,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": {**version_annotations(message.version, hub_id), **address},
            "finalizers": [infrav1.MANAGED_CLUSTER_FINALIZER],
        },
        "spec": infrav1.spec_of(message.managed),
    }


def version_of(copy: Object) -> MessageVersion:
    copy_annotations = copy["metadata"].get("annotations") or {}
    numbers = (
        int(copy_annotations.get(key) or 0) for key in (GENERATION_ANNOTATION, EPOCH_ANNOTATION, REVISION_ANNOTATION)
    )
    return MessageVersion(str(copy_annotations.get(UID_ANNOTATION) or ""), *numbers)


def hub_id_of(copy: Object) -> str:
    return str((copy["metadata"].get("annotations") or {}).get(HUB_ANNOTATION) or "")


def version_annotations(version: MessageVersion, hub_id: str) -> dict[str, str]:
    return {
        HUB_ANNOTATION: hub_id,
        UID_ANNOTATION: version.uid,
        GENERATION_ANNOTATION: str(version.generation),
        EPOCH_ANNOTATION: str(version.epoch),
        REVISION_ANNOTATION: str(version.revision),
    }
