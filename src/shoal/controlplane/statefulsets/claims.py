"""PersistentVolumeClaims of a StatefulSet's pods: built from its templates, owned according to its retention policy.
Pure.

The owner of a claim is the object it is deleted with: the set (`whenDeleted: Delete`) or a pod that is scaled down
(`whenScaled: Delete`). A claim with another controller, or with references to predecessors of the same name, is left
alone.
"""

from __future__ import annotations

from typing import Any

from shoal.controlplane.statefulsets.identity import claim_name, claim_templates, ordinal_of, ordinals_of
from shoal.objects.ownership import controller_reference

Object = dict[str, Any]

DELETE = "Delete"


def new_claims(stateful_set: Object, pod: Object) -> list[Object]:
    """Returns all claims that the pod needs, whether or not they exist."""
    match = stateful_set["spec"]["selector"].get("matchLabels") or {}
    claims = []
    for template in claim_templates(stateful_set):
        template_metadata = template.get("metadata") or {}
        metadata = {
            field: template_metadata[field] for field in ("annotations", "finalizers") if template_metadata.get(field)
        }
        metadata |= {
            "name": claim_name(stateful_set, template, ordinal_of(pod)),
            "namespace": stateful_set["metadata"]["namespace"],
            "labels": {**(template_metadata.get("labels") or {}), **match},
        }
        owners = _desired_owners(stateful_set, pod)
        if owners:
            metadata["ownerReferences"] = owners
        claims.append(
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": template["spec"]}
        )
    return claims


def claim_names(stateful_set: Object, pod: Object) -> list[str]:
    ordinal = ordinal_of(pod)
    return [claim_name(stateful_set, template, ordinal) for template in claim_templates(stateful_set)]


def is_stale(stateful_set: Object, pod: Object, claim: Object) -> bool:
    """Returns whether the claim will be deleted with an earlier pod of this name. The new pod has to wait for that."""
    return _retention_policy(stateful_set, "whenScaled") == DELETE and any(
        _refers_to_pod(reference, pod) and reference.get("uid") != pod["metadata"].get("uid")
        for reference in claim["metadata"].get("ownerReferences") or ()
    )


def owners_patch(stateful_set: Object, pod: Object, claim: Object) -> Object | None:
    """Returns the merge patch that sets the owners required by the policy; None if they are right."""
    metadata = claim["metadata"]
    references = metadata.get("ownerReferences") or []
    if any(_is_predecessor(one, stateful_set, pod) for one in references):
        return None
    others = [one for one in references if not _refers_to_set(one, stateful_set) and not _refers_to_pod(one, pod)]
    desired = [] if _has_other_controller(stateful_set, others) else _desired_owners(stateful_set, pod)
    own_references = [one for one in references if one not in others]
    if [(one["uid"], bool(one.get("controller"))) for one in own_references] == [(one["uid"], True) for one in desired]:
        return None
    return {"metadata": {"resourceVersion": metadata["resourceVersion"], "ownerReferences": others + desired or None}}


def _desired_owners(stateful_set: Object, pod: Object) -> list[Object]:
    if ordinal_of(pod) not in ordinals_of(stateful_set) and _retention_policy(stateful_set, "whenScaled") == DELETE:
        return [controller_reference(pod, "v1", "Pod")]
    if _retention_policy(stateful_set, "whenDeleted") == DELETE:
        return [controller_reference(stateful_set, "apps/v1", "StatefulSet")]
    return []


def _retention_policy(stateful_set: Object, when: str) -> str:
    return str((stateful_set["spec"].get("persistentVolumeClaimRetentionPolicy") or {}).get(when) or "Retain")


def _has_delete_policy(stateful_set: Object) -> bool:
    return DELETE in (_retention_policy(stateful_set, "whenDeleted"), _retention_policy(stateful_set, "whenScaled"))


def _has_other_controller(stateful_set: Object, others: list[Object]) -> bool:
    return _has_delete_policy(stateful_set) and any(one.get("controller") for one in others)


def _refers_to_set(reference: Object, stateful_set: Object) -> bool:
    return _refers_to(reference, "apps/v1", "StatefulSet", stateful_set)


def _refers_to_pod(reference: Object, pod: Object) -> bool:
    return _refers_to(reference, "v1", "Pod", pod)


def _refers_to(reference: Object, api_version: str, kind: str, obj: Object) -> bool:
    named = reference.get("apiVersion"), reference.get("kind"), reference.get("name")
    return named == (api_version, kind, obj["metadata"]["name"])


def _is_predecessor(reference: Object, stateful_set: Object, pod: Object) -> bool:
    return any(
        is_one(reference, obj) and reference.get("uid") != obj["metadata"].get("uid")
        for is_one, obj in ((_refers_to_set, stateful_set), (_refers_to_pod, pod))
    )
