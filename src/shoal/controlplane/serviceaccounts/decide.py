"""Desired root CA ConfigMap and token Secret. Pure."""

from __future__ import annotations

import base64
from typing import Any

from shoal.kinds.accounts import DESCRIPTION

Object = dict[str, Any]

TOKEN_TYPE = "kubernetes.io/service-account-token"
ACCOUNT_NAME = "kubernetes.io/service-account.name"
ACCOUNT_UID = "kubernetes.io/service-account.uid"


def is_active(namespace: Object) -> bool:
    return "deletionTimestamp" not in namespace["metadata"]


def repaired(config_map: Object, authority: str) -> Object | None:
    """Returns the corrected ConfigMap; None if it is correct."""
    metadata = config_map["metadata"]
    annotations = metadata.get("annotations") or {}
    wanted = {"ca.crt": authority}
    if (
        config_map.get("data") == wanted
        and not config_map.get("binaryData")
        and DESCRIPTION.items() <= annotations.items()
    ):
        return None
    kept = {key: value for key, value in config_map.items() if key != "binaryData"}
    return {**kept, "metadata": {**metadata, "annotations": {**annotations, **DESCRIPTION}}, "data": wanted}


def account_of(secret: Object) -> str:
    annotations: dict[str, str] = secret["metadata"].get("annotations") or {}
    return annotations.get(ACCOUNT_NAME, "")


def is_orphaned(secret: Object, owner: Object | None) -> bool:
    """Returns whether its ServiceAccount was deleted. A recreated one has another uid."""
    uid = (secret["metadata"].get("annotations") or {}).get(ACCOUNT_UID)
    return owner is None or bool(uid and uid != owner["metadata"]["uid"])


def needs_token(secret: Object) -> bool:
    return not (secret.get("data") or {}).get("token")


def missing(secret: Object, owner: Object, authority: str, token: str) -> Object | None:
    """Returns the patch that completes the Secret, with a token if it has none; None if it is complete."""
    metadata, data = secret["metadata"], secret.get("data") or {}
    wanted = {"ca.crt": _encoded(authority), "namespace": _encoded(metadata["namespace"])}
    if token:
        wanted["token"] = _encoded(token)
    uid = owner["metadata"]["uid"]
    if wanted.items() <= data.items() and (metadata.get("annotations") or {}).get(ACCOUNT_UID) == uid:
        return None
    return {
        "metadata": {"resourceVersion": metadata["resourceVersion"], "annotations": {ACCOUNT_UID: uid}},
        "data": wanted,
    }


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
