"""ControllerRevisions: the history of pod templates of a StatefulSet or DaemonSet. Pure.

The data is the patch that restores the template, as upstream stores it, so kubectl can show and undo it.
"""

from __future__ import annotations

import json
from typing import Any

from shoal.kinds.apps.deployment import safe_encode

Object = dict[str, Any]

HASH_LABEL = "controller.kubernetes.io/hash"
"""Label of a ControllerRevision: the hash of its data."""
POD_REVISION_LABEL = "controller-revision-hash"
"""Label of a pod: the hash of its revision."""

_MAX_PREFIX_LENGTH = 223
_UNCOPIED_ANNOTATIONS = frozenset({"shoal.dev/cluster"})


def sort_revisions(revisions: list[Object]) -> list[Object]:
    """Sorts oldest first."""
    return sorted(revisions, key=_sort_key)


def _sort_key(revision: Object) -> tuple[int, str, str]:
    metadata = revision["metadata"]
    return revision_number(revision), metadata.get("creationTimestamp") or "", metadata["name"]


def revision_number(revision: Object) -> int:
    return int(revision.get("revision") or 0)


def revision_data(owner: Object) -> Object:
    """Returns the data of a revision of the owner."""
    return {"spec": {"template": {**owner["spec"]["template"], "$patch": "replace"}}}


def template_of(revision: Object) -> Object | None:
    """Returns the pod template of a revision; None: it has other data."""
    template = ((revision.get("data") or {}).get("spec") or {}).get("template")
    if not isinstance(template, dict):
        return None
    return {field: value for field, value in template.items() if field != "$patch"}


def apply_revision(owner: Object, revision: Object) -> Object:
    """Returns the owner with the template of the revision."""
    template = template_of(revision)
    return owner if template is None else {**owner, "spec": {**owner["spec"], "template": template}}


def find_equal_revision(owner: Object, revisions: list[Object]) -> Object | None:
    """Returns the newest revision that equals the owner's template. `revisions` are sorted."""
    template = owner["spec"]["template"]
    return next((one for one in reversed(revisions) if template_of(one) == template), None)


def next_revision_number(revisions: list[Object]) -> int:
    return revision_number(revisions[-1]) + 1 if revisions else 1


def revision_hash(data: Object, collisions: int) -> str:
    """Returns upstream's hash: FNV-1 of the JSON and the collision count, safe-encoded."""
    value = 2166136261
    for byte in f"{_canonical_json(data)}{collisions}".encode():
        value = value * 16777619 & 0xFFFFFFFF ^ byte
    return safe_encode(value)


def _canonical_json(data: Object) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def new_revision(owner: Object, reference: Object, number: int, collisions: int) -> Object:
    """`reference` is the reference to the owner. The hash is under the label that readers of the owner's kind
    expect.
    """
    metadata, data = owner["metadata"], revision_data(owner)
    hash_value = revision_hash(data, collisions)
    labels = (owner["spec"]["template"].get("metadata") or {}).get("labels") or {}
    owner_annotations = metadata.get("annotations") or {}
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": f"{metadata['name'][:_MAX_PREFIX_LENGTH]}-{hash_value}",
            "namespace": metadata["namespace"],
            "labels": {**labels, _hash_label_for(reference): hash_value},
            "annotations": {key: value for key, value in owner_annotations.items() if key not in _UNCOPIED_ANNOTATIONS},
            "ownerReferences": [reference],
        },
        # kubectl compares the bytes, in Go's key order.
        "data": json.loads(_canonical_json(data)),
        "revision": number,
    }


def _hash_label_for(reference: Object) -> str:
    return POD_REVISION_LABEL if reference["kind"] == "DaemonSet" else HASH_LABEL
