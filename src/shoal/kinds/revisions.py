"""ControllerRevisions: the history of pod templates of a StatefulSet or DaemonSet. Pure.

The data is the patch that restores the template, as upstream stores it, so kubectl can show and undo it.
"""

from __future__ import annotations

import json
from typing import Any

from shoal.kinds.deployments import safe_encoded

Object = dict[str, Any]

HASH = "controller.kubernetes.io/hash"
"""Label of a ControllerRevision: the hash of its data."""
POD_REVISION = "controller-revision-hash"
"""Label of a pod: the hash of its revision."""

_LONGEST_PREFIX = 223
_NOT_COPIED = frozenset({"shoal.dev/cluster"})


def ordered(revisions: list[Object]) -> list[Object]:
    """Sorts oldest first."""
    return sorted(revisions, key=_age)


def _age(revision: Object) -> tuple[int, str, str]:
    metadata = revision["metadata"]
    return number_of(revision), metadata.get("creationTimestamp") or "", metadata["name"]


def number_of(revision: Object) -> int:
    return int(revision.get("revision") or 0)


def data_of(owner: Object) -> Object:
    """Returns the data of a revision of the owner."""
    return {"spec": {"template": {**owner["spec"]["template"], "$patch": "replace"}}}


def template_of(revision: Object) -> Object | None:
    """Returns the pod template of a revision; None: it has other data."""
    template = ((revision.get("data") or {}).get("spec") or {}).get("template")
    if not isinstance(template, dict):
        return None
    return {field: value for field, value in template.items() if field != "$patch"}


def restored(owner: Object, revision: Object) -> Object:
    """Returns the owner with the template of the revision."""
    template = template_of(revision)
    return owner if template is None else {**owner, "spec": {**owner["spec"], "template": template}}


def same_as(owner: Object, revisions: list[Object]) -> Object | None:
    """Returns the newest revision that equals the owner's template. `revisions` are sorted."""
    template = owner["spec"]["template"]
    return next((one for one in reversed(revisions) if template_of(one) == template), None)


def next_number(revisions: list[Object]) -> int:
    return number_of(revisions[-1]) + 1 if revisions else 1


def hash_of(data: Object, collisions: int) -> str:
    """Returns upstream's hash: FNV-1 of the JSON and the collision count, safe-encoded."""
    value = 2166136261
    for byte in f"{_text(data)}{collisions}".encode():
        value = value * 16777619 & 0xFFFFFFFF ^ byte
    return safe_encoded(value)


def _text(data: Object) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def new_revision(owner: Object, reference: Object, number: int, collisions: int) -> Object:
    """`reference` is the reference to the owner. The hash is under the label that readers of the owner's kind
    expect.
    """
    metadata, data = owner["metadata"], data_of(owner)
    hashed = hash_of(data, collisions)
    labels = (owner["spec"]["template"].get("metadata") or {}).get("labels") or {}
    given = metadata.get("annotations") or {}
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": f"{metadata['name'][:_LONGEST_PREFIX]}-{hashed}",
            "namespace": metadata["namespace"],
            "labels": {**labels, _label(reference): hashed},
            "annotations": {key: value for key, value in given.items() if key not in _NOT_COPIED},
            "ownerReferences": [reference],
        },
        # kubectl compares the bytes, in Go's key order.
        "data": json.loads(_text(data)),
        "revision": number,
    }


def _label(reference: Object) -> str:
    return POD_REVISION if reference["kind"] == "DaemonSet" else HASH
