"""Desired root CA ConfigMap and token Secret. Pure."""

from __future__ import annotations

import base64
from typing import Any

from shoal.kinds.core.serviceaccount import ROOT_CA_ANNOTATIONS
from shoal.kinds.fleet.keys import GENERATION_ANNOTATION, generation_from_annotation

Object = dict[str, Any]

TOKEN_TYPE = "kubernetes.io/service-account-token"
ACCOUNT_NAME = "kubernetes.io/service-account.name"
ACCOUNT_UID = "kubernetes.io/service-account.uid"


def is_active(namespace: Object) -> bool:
    return "deletionTimestamp" not in namespace["metadata"]


def root_ca_update(config_map: Object, ca_cert: str) -> Object | None:
    """Returns the corrected ConfigMap; None if it is correct."""
    metadata = config_map["metadata"]
    annotations = metadata.get("annotations") or {}
    desired = {"ca.crt": ca_cert}
    if (
        config_map.get("data") == desired
        and not config_map.get("binaryData")
        and ROOT_CA_ANNOTATIONS.items() <= annotations.items()
    ):
        return None
    kept = {key: value for key, value in config_map.items() if key != "binaryData"}
    return {**kept, "metadata": {**metadata, "annotations": {**annotations, **ROOT_CA_ANNOTATIONS}}, "data": desired}


def account_of(secret: Object) -> str:
    annotations: dict[str, str] = secret["metadata"].get("annotations") or {}
    return annotations.get(ACCOUNT_NAME, "")


def is_orphaned(secret: Object, owner: Object | None) -> bool:
    """Returns whether its ServiceAccount was deleted. A recreated one has another uid."""
    uid = (secret["metadata"].get("annotations") or {}).get(ACCOUNT_UID)
    return owner is None or bool(uid and uid != owner["metadata"]["uid"])


def needs_token(secret: Object, generation: int) -> bool:
    """`generation` is that of the cluster's keys. A token of older keys is replaced before they are dropped."""
    return not (secret.get("data") or {}).get("token") or generation_from_annotation(secret) < generation


def token_secret_patch(secret: Object, owner: Object, ca_cert: str, token: str, generation: int) -> Object | None:
    """Returns the patch that completes the Secret, with a token of that generation of keys if it needs one; None if it
    is complete.
    """
    metadata, data = secret["metadata"], secret.get("data") or {}
    desired = {"ca.crt": _base64(ca_cert), "namespace": _base64(metadata["namespace"])}
    if token:
        desired["token"] = _base64(token)
    uid = owner["metadata"]["uid"]
    if desired.items() <= data.items() and (metadata.get("annotations") or {}).get(ACCOUNT_UID) == uid:
        return None
    annotations = {ACCOUNT_UID: uid}
    if token and generation > 1:
        annotations[GENERATION_ANNOTATION] = str(generation)
    return {
        "metadata": {"resourceVersion": metadata["resourceVersion"], "annotations": annotations},
        "data": desired,
    }


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
