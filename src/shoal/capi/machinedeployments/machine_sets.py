"""Builds the MachineSets of a MachineDeployment, and the in-place patches of existing ones. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shoal.capi.templates import IN_PLACE_FIELDS, hash_digits, is_rollout_after_expired, rollout_fields, stable_suffix
from shoal.kinds.clusterapi.capi import (
    API_VERSION,
    CLUSTER_NAME,
    DEPLOYMENT_NAME,
    DISABLE_MACHINE_CREATE,
    MACHINE_DEPLOYMENT,
    MACHINE_SET,
    MACHINE_SET_FINALIZER,
    PAUSED,
    REVISION,
    TEMPLATE_HASH,
    annotations_of,
    labels_of,
    owner_reference,
)

Object = dict[str, Any]

MAX_NAME_LENGTH = 63
_NOT_COPIED = ("kubectl.kubernetes.io/last-applied-configuration", REVISION, PAUSED)


def new_machine_set(deployment: Object, old: Sequence[Object], now: float) -> Object:
    """The name is derived from the template, so that a retry finds the object. One created because of `rollout.after`
    is also named after that time.
    """
    metadata, template = deployment["metadata"], deployment["spec"]["template"]
    due = any(is_rollout_after_expired(deployment, each, now) for each in old)
    parts = (metadata["uid"], rollout_fields(template), deployment["spec"]["rollout"]["after"] if due else "")
    random = stable_suffix(*parts)
    name = f"{metadata['name'][: MAX_NAME_LENGTH - len(random) - 1]}-{random}"
    template_hash = f"{hash_digits(rollout_fields(template))}-{random}"
    revision = max((revision_of(each) for each in old), default=0) + 1
    return {
        "apiVersion": API_VERSION,
        "kind": MACHINE_SET,
        "metadata": {
            "namespace": metadata["namespace"],
            "name": name,
            "labels": machine_set_labels(deployment, template_hash),
            "annotations": {**_annotations(deployment), DISABLE_MACHINE_CREATE: "false", REVISION: str(revision)},
            "finalizers": [MACHINE_SET_FINALIZER],
            "ownerReferences": [owner_reference(deployment, API_VERSION, MACHINE_DEPLOYMENT, controller=True)],
        },
        "spec": {
            "clusterName": deployment["spec"]["clusterName"],
            "replicas": 0,
            "selector": _selector(deployment, template_hash),
            "template": {**template, "metadata": _template_metadata(deployment, template_hash)},
            **_in_place_fields(deployment),
        },
    }


def in_place_patch(deployment: Object, machine_set: Object, *, is_current: bool, others: Sequence[Object]) -> Object:
    """The patch that updates labels, annotations and in-place fields; empty if they are current."""
    template_hash = labels_of(machine_set).get(TEMPLATE_HASH, "")
    template = deployment["spec"]["template"]["spec"]
    annotations = {**_annotations(deployment), DISABLE_MACHINE_CREATE: "false"}
    if is_current:
        annotations[REVISION] = str(_newest_revision(machine_set, others))
    elif ((deployment["spec"].get("rollout") or {}).get("strategy") or {}).get("type") == "OnDelete":
        annotations[DISABLE_MACHINE_CREATE] = "true"
    current = machine_set["spec"]["template"].get("metadata") or {}
    labels = _replacement_patch(current.get("labels"), machine_set_labels(deployment, template_hash))
    metadata = _template_metadata(deployment, template_hash)
    desired: Object = {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {
            "template": {
                "metadata": {
                    "labels": labels,
                    "annotations": _replacement_patch(current.get("annotations"), metadata.get("annotations") or {}),
                },
                "spec": {key: template.get(key) for key in IN_PLACE_FIELDS},
            },
            **{key: deployment["spec"].get(key) for key in ("deletion", "machineNaming")},
        },
    }
    return _prune_unchanged(desired, machine_set)


def _replacement_patch(previous: Mapping[str, str] | None, desired: Mapping[str, str]) -> dict[str, str | None]:
    """Part of a merge patch. The template of the MachineSet shows what the MachineDeployment had set before."""
    return {**dict.fromkeys(previous or {}), **desired}


def _prune_unchanged(desired: Mapping[str, Any], current: Mapping[str, Any] | None) -> Object:
    """The part of a merge patch that changes anything."""
    changes: Object = {}
    for key, value in desired.items():
        old = (current or {}).get(key)
        if isinstance(value, dict) and (old is None or isinstance(old, dict)):
            inner = _prune_unchanged(value, old)
            if inner:
                changes[key] = inner
        elif value != old:
            changes[key] = value
    return changes


def revision_of(machine_set: Mapping[str, Any]) -> int:
    text = annotations_of(machine_set).get(REVISION, "")
    return int(text) if text.isdigit() else 0


def _newest_revision(machine_set: Object, others: Sequence[Object]) -> int:
    """A MachineSet that becomes the current one again gets the highest revision."""
    highest = max((revision_of(each) for each in others if each is not machine_set), default=0)
    return max(revision_of(machine_set), highest + 1 if highest >= revision_of(machine_set) else 0)


def machine_set_labels(deployment: Object, template_hash: str) -> dict[str, str]:
    return {
        **_template_labels(deployment),
        TEMPLATE_HASH: template_hash,
        DEPLOYMENT_NAME: deployment["metadata"]["name"],
    }


def _template_labels(deployment: Object) -> dict[str, str]:
    labels = dict((deployment["spec"]["template"].get("metadata") or {}).get("labels") or {})
    return {**labels, CLUSTER_NAME: deployment["spec"]["clusterName"]}


def _template_metadata(deployment: Object, template_hash: str) -> Object:
    annotations = (deployment["spec"]["template"].get("metadata") or {}).get("annotations")
    metadata: Object = {"labels": machine_set_labels(deployment, template_hash)}
    return {**metadata, "annotations": dict(annotations)} if annotations else metadata


def _selector(deployment: Object, template_hash: str) -> Object:
    selector = deployment["spec"].get("selector") or {}
    labels = dict(selector.get("matchLabels") or {})
    if not labels and not selector.get("matchExpressions"):
        labels = {DEPLOYMENT_NAME: deployment["metadata"]["name"]}
    labels |= {CLUSTER_NAME: deployment["spec"]["clusterName"], TEMPLATE_HASH: template_hash}
    return {**selector, "matchLabels": labels}


def _annotations(deployment: Object) -> dict[str, str]:
    return {key: value for key, value in annotations_of(deployment).items() if key not in _NOT_COPIED}


def _in_place_fields(deployment: Object) -> Object:
    return {key: deployment["spec"][key] for key in ("deletion", "machineNaming") if deployment["spec"].get(key)}
