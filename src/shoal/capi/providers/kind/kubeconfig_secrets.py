"""Parses kubeconfigs of kind and builds their Secrets. Pure."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import yaml

from shoal.capi.providers.kind.errors import COMMAND_FAILED, KindError
from shoal.kinds.clusterapi import capi, kindcluster

Object = dict[str, Any]


@dataclass(frozen=True, slots=True, repr=False)
class KubeconfigAccess:
    """Without repr: it contains a credential."""

    text: str
    id: str
    """Hash of the cluster's own CA certificate."""
    host: str
    port: int


def parse_kubeconfig(text: str) -> KubeconfigAccess:
    """Raises KindError."""
    try:
        config = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        cluster = config["clusters"][0]["cluster"]
        parts = urlsplit(str(cluster["server"]))
        ca_data, host, port = str(cluster["certificate-authority-data"]), parts.hostname, parts.port or 443
    except (yaml.YAMLError, LookupError, TypeError, ValueError):
        host = None
    if not host:
        raise KindError(COMMAND_FAILED, "kind get kubeconfig: the output is not a kubeconfig")
    return KubeconfigAccess(text, hashlib.sha256(ca_data.encode()).hexdigest()[:16], host, port)


def secrets_of(obj: Mapping[str, Any], name: str, cluster: Mapping[str, Any] | None, text: str) -> Iterator[Object]:
    """Secrets for the kind cluster `name`: the provider's own, and Cluster API's if a Cluster owns the object."""
    data, metadata = base64.b64encode(text.encode()).decode(), obj["metadata"]
    namespace, labels_own = metadata["namespace"], {kindcluster.OWNER_UID_LABEL: metadata["uid"]}
    owner = capi.owner_reference(obj, kindcluster.API_VERSION, kindcluster.KIND, controller=True)
    own_name = kindcluster.config_secret_name(name)
    yield _secret(namespace, own_name, labels_own, owner, "Opaque", {kindcluster.KUBECONFIG_KEY: data})
    if cluster is not None:
        cluster_name = cluster["metadata"]["name"]
        owner = capi.owner_reference(cluster, capi.API_VERSION, capi.CLUSTER, controller=True)
        labels, capi_name = {**labels_own, capi.CLUSTER_NAME: cluster_name}, capi.kubeconfig_secret_name(cluster_name)
        yield _secret(namespace, capi_name, labels, owner, capi.KUBECONFIG_SECRET_TYPE, {capi.KUBECONFIG_KEY: data})


def _secret(namespace: str, name: str, labels: Object, owner: Object, type_: str, data: Object) -> Object:
    metadata = {"namespace": namespace, "name": name, "labels": labels, "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": type_, "data": data}


def is_secret_up_to_date(desired: Object, existing: Object) -> bool:
    return bool(
        existing.get("data") == desired["data"] and capi.labels_of(existing).items() >= capi.labels_of(desired).items()
    )


def may_overwrite(desired: Object, existing: Object) -> bool:
    """Whether a Secret of that name without our label may be overwritten: only if its owner is ours."""
    uid = desired["metadata"]["ownerReferences"][0]["uid"]
    return any(reference["uid"] == uid for reference in existing["metadata"].get("ownerReferences") or ())
