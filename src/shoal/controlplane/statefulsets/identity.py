"""Identity of StatefulSet pods: ordinals, names, labels and claim volumes. Pure."""

from __future__ import annotations

from typing import Any

from shoal.controlplane.podcontrol.template import pod_from_template
from shoal.kinds.apps.revision import POD_REVISION_LABEL
from shoal.objects.ownership import OwnershipClaims, controller_reference

Object = dict[str, Any]

POD_NAME, POD_INDEX = "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"

_MAX_ORDINAL = 2**31 - 1


def parent_and_ordinal(name: str) -> tuple[str, int]:
    """Splits a pod name; the ordinal is -1 if there is none."""
    parent, dash, digits = name.rpartition("-")
    if not dash or not (digits.isascii() and digits.isdigit()):
        return "", -1
    ordinal = int(digits)
    return parent, ordinal if ordinal <= _MAX_ORDINAL else -1


def ordinal_of(pod: Object) -> int:
    return parent_and_ordinal(pod["metadata"]["name"])[1]


def ordinal_start(stateful_set: Object) -> int:
    return int((stateful_set["spec"].get("ordinals") or {}).get("start") or 0)


def replicas_of(stateful_set: Object) -> int:
    count = stateful_set["spec"].get("replicas")
    return 1 if count is None else int(count)


def ordinals_of(stateful_set: Object) -> range:
    """Returns the ordinals of the desired pods."""
    start = ordinal_start(stateful_set)
    return range(start, start + replicas_of(stateful_set))


def revision_of(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get(POD_REVISION_LABEL, ""))


def filter_members(stateful_set: Object, claims: OwnershipClaims) -> OwnershipClaims:
    """Keeps the pods that belong to the set by name: labels alone are not enough."""
    name, alive = stateful_set["metadata"]["name"], "deletionTimestamp" not in stateful_set["metadata"]

    def belongs(pod: Object) -> bool:
        return bool(parent_and_ordinal(pod["metadata"]["name"])[0] == name)

    foreign = [pod for pod in claims.owned if not belongs(pod)] if alive else []
    return OwnershipClaims(
        [pod for pod in claims.owned if belongs(pod)],
        [pod for pod in claims.adopt if belongs(pod)],
        claims.release + foreign,
    )


def claim_templates(stateful_set: Object) -> list[Object]:
    return stateful_set["spec"].get("volumeClaimTemplates") or []


def claim_name(stateful_set: Object, template: Object, ordinal: int) -> str:
    return f"{template['metadata']['name']}-{stateful_set['metadata']['name']}-{ordinal}"


def new_pod(stateful_set: Object, ordinal: int, revision: str) -> Object:
    """`stateful_set` is the set as of that revision."""
    pod = pod_from_template(stateful_set, controller_reference(stateful_set, "apps/v1", "StatefulSet"))
    metadata, name = pod["metadata"], f"{stateful_set['metadata']['name']}-{ordinal}"
    del metadata["generateName"]
    metadata["name"] = name
    metadata["labels"] = {**metadata.get("labels", {}), **identity_labels(name), POD_REVISION_LABEL: revision}
    service = stateful_set["spec"].get("serviceName")
    identity = {"hostname": name} | ({"subdomain": service} if service else {})
    volumes = _with_claim_volumes(stateful_set, pod["spec"].get("volumes") or [], ordinal)
    return {**pod, "spec": {**pod["spec"], **identity, **({"volumes": volumes} if volumes else {})}}


def identity_labels(name: str) -> dict[str, str]:
    return {POD_NAME: name, POD_INDEX: str(parent_and_ordinal(name)[1])}


def identity_patch(stateful_set: Object, pod: Object) -> Object | None:
    """Returns the merge patch that restores the pod's identity and storage; None if they are right."""
    name, labels = pod["metadata"]["name"], pod["metadata"].get("labels") or {}
    patch: Object = {}
    if labels.get(POD_NAME) != name:
        patch["metadata"] = {"labels": identity_labels(name)}
    volumes = pod["spec"].get("volumes") or []
    if not _has_claim_volumes(stateful_set, volumes, ordinal_of(pod)):
        patch["spec"] = {"volumes": _with_claim_volumes(stateful_set, volumes, ordinal_of(pod))}
    return patch or None


def _has_claim_volumes(stateful_set: Object, volumes: list[Object], ordinal: int) -> bool:
    claims = {volume["name"]: (volume.get("persistentVolumeClaim") or {}).get("claimName") for volume in volumes}
    return all(
        claims.get(template["metadata"]["name"]) == claim_name(stateful_set, template, ordinal)
        for template in claim_templates(stateful_set)
    )


def _with_claim_volumes(stateful_set: Object, volumes: list[Object], ordinal: int) -> list[Object]:
    """Returns the volumes with those of the claims, which replace others of the same names."""
    claims = {
        template["metadata"]["name"]: {"claimName": claim_name(stateful_set, template, ordinal)}
        for template in claim_templates(stateful_set)
    }
    claim_volumes = [{"name": name, "persistentVolumeClaim": claim} for name, claim in claims.items()]
    return claim_volumes + [volume for volume in volumes if volume["name"] not in claims]
