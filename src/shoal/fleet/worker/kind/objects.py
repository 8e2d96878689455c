"""The KINDCluster of a ManagedCluster, and the Secret with the worker's keys for it. Pure.

The kubeconfig of kind, with the certificate of kind's administrator, stays in the worker's own root. For the hub there
is a ServiceAccount token, and for users of the hub there are tokens that only this worker accepts: the key that signs
them and the ServiceAccount token are in one Secret.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from shoal.kinds.clusterapi import capi, kindcluster
from shoal.kinds.clusterapi.embedded import ADMIN_TOKEN_RENEWAL_SECONDS, ADMIN_TOKEN_SECONDS
from shoal.kinds.fleet import infrav1
from shoal.kinds.fleet.kindhosting import (
    NodeImage,
    access_secret_name,
    default_version,
    kind_cluster_name,
    node_count,
    node_image,
)

Object = dict[str, Any]

VERSION_ANNOTATION = "shoal.dev/kubernetes-version"
"""Annotation of the KINDCluster: the release whose image it has."""
ACCESS_SECRET_TYPE = "shoal.dev/kind-access"
KEY, TOKEN = "key", "token"
"""Keys of the Secret: the number that signs tokens of hub users, and the token of the hub."""


# --- the KINDCluster ---


class ImageChoice(NamedTuple):
    version: str
    image: NodeImage | None
    """None: there is none for the version."""


def choose_image(copy: Object, existing: Object | None, images: Mapping[str, str]) -> ImageChoice:
    """Returns the release and its image. An existing cluster keeps its image while its release does not change: other
    images of a restarted worker must not replace it.
    """
    requested = str(infrav1.spec_of(copy).get("version") or "")
    if existing is None:
        version = requested or default_version(images)
        return ImageChoice(version, node_image(version, images))
    current = str(capi.annotations_of(existing).get(VERSION_ANNOTATION) or "")
    if not requested or requested == current:
        spec = infrav1.spec_of(existing)
        return ImageChoice(current, NodeImage(str(spec.get("kubernetesVersion")), str(spec.get("image") or "")))
    return ImageChoice(requested, node_image(requested, images))


def kind_cluster_object(copy: Object, choice: ImageChoice) -> Object | None:
    """Returns the KINDCluster without its owner. None: there is no image for the version."""
    if choice.image is None:
        return None
    nodes: list[Object] = [{"role": "control-plane"}]
    if node_count(copy) > 1:
        nodes.append({"role": "worker", "count": node_count(copy) - 1})
    metadata = copy["metadata"]
    uid = str(capi.annotations_of(copy).get(infrav1.HUB_UID_ANNOTATION) or metadata["uid"])
    spec = {
        "clusterName": kind_cluster_name(metadata["name"], uid),
        "kubernetesVersion": choice.image.minor,
        "nodes": nodes,
        "replacePolicy": infrav1.spec_of(copy).get("replacePolicy") or "Refuse",
        **({"image": choice.image.image} if choice.image.image else {}),
    }
    return {
        "apiVersion": kindcluster.API_VERSION,
        "kind": kindcluster.KIND,
        "metadata": {"name": metadata["name"], "annotations": {VERSION_ANNOTATION: choice.version}},
        "spec": spec,
    }


# --- the Secret ---


def access_secret(copy: Object, owner: Object, key: bytes) -> Object:
    """`owner` is the Cluster: the Secret ends with it."""
    metadata = copy["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": access_secret_name(metadata["name"]),
            "namespace": metadata["namespace"],
            "labels": {infrav1.CLUSTER_NAME: metadata["name"]},
            "ownerReferences": [capi.owner_reference(owner, capi.API_VERSION, capi.CLUSTER, controller=True)],
        },
        "type": ACCESS_SECRET_TYPE,
        "data": {KEY: base64.b64encode(key).decode()},
    }


def token_patch(token: str) -> Object:
    return {"data": {TOKEN: base64.b64encode(token.encode()).decode()}}


def secret_value(secret: Object | None, key: str) -> bytes:
    """Empty if there is none."""
    if secret is None or secret.get("type") != ACCESS_SECRET_TYPE:
        return b""
    try:
        return base64.b64decode((secret.get("data") or {}).get(key, ""), validate=True)
    except binascii.Error:
        return b""


def is_token_current(token: str, account_uid: str, now: float) -> bool:
    """A token of an account that was deleted, and so of a cluster that was replaced, is none."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        uid, expiry = claims["kubernetes.io"]["serviceaccount"]["uid"], float(claims["exp"])
        issued = float(claims["iat"])
    except (IndexError, KeyError, TypeError, ValueError):
        return False
    # A server may give less time than was asked for: then the last third of it is for the renewal.
    renewal = min(float(ADMIN_TOKEN_RENEWAL_SECONDS), (expiry - issued) / 3)
    return bool(uid == account_uid and expiry - now > renewal)


def admin_token_request() -> Object:
    return {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": ADMIN_TOKEN_SECONDS},
    }
