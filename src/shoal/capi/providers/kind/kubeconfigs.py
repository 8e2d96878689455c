"""Parses kubeconfigs of kind and builds their Secrets. Pure."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import yaml

from shoal.capi.providers.kind.answers import FAILED, Problem
from shoal.kinds import capi, kindcluster

Object = dict[str, Any]


@dataclass(frozen=True, slots=True, repr=False)
class Access:
    """Without repr: it contains a credential."""

    text: str
    id: str
    """Hash of the cluster's own CA certificate."""
    host: str
    port: int


def access_of(text: str) -> Access:
    """Raises KindError."""
    try:
        config = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        cluster = config["clusters"][0]["cluster"]
        parts = urlsplit(str(cluster["server"]))
        authority, host, port = str(cluster["certificate-authority-data"]), parts.hostname, parts.port or 443
    except (yaml.YAMLError, LookupError, TypeError, ValueError):
        host = None
    if not host:
        raise Problem(FAILED, "kind get kubeconfig: it printed no kubeconfig")
    return Access(text, hashlib.sha256(authority.encode()).hexdigest()[:16], host, port)


def secrets_of(obj: Mapping[str, Any], name: str, cluster: Mapping[str, Any] | None, text: str) -> Iterator[Object]:
    """Secrets for the kind cluster `name`: the provider's own, and Cluster API's if a Cluster owns the object."""
    data, metadata = base64.b64encode(text.encode()).decode(), obj["metadata"]
    namespace, mine = metadata["namespace"], {kindcluster.OWNER_UID: metadata["uid"]}
    owner = capi.owner_reference(obj, kindcluster.API_VERSION, kindcluster.KIND, controller=True)
    own = kindcluster.secret_name(name)
    yield _secret(namespace, own, mine, owner, "Opaque", {kindcluster.SECRET_KEY: data})
    if cluster is not None:
        of_cluster = cluster["metadata"]["name"]
        owner = capi.owner_reference(cluster, capi.API_VERSION, capi.CLUSTER, controller=True)
        labels, theirs = {**mine, capi.CLUSTER_NAME: of_cluster}, capi.kubeconfig_name(of_cluster)
        yield _secret(namespace, theirs, labels, owner, capi.KUBECONFIG_TYPE, {capi.KUBECONFIG_KEY: data})


def _secret(namespace: str, name: str, labels: Object, owner: Object, type_: str, data: Object) -> Object:
    metadata = {"namespace": namespace, "name": name, "labels": labels, "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": type_, "data": data}


def is_same(wanted: Object, found: Object) -> bool:
    return bool(found.get("data") == wanted["data"] and capi.labels_of(found).items() >= capi.labels_of(wanted).items())


def is_ours(wanted: Object, found: Object) -> bool:
    """Whether a Secret of that name without our label may be overwritten: only if its owner is ours."""
    uid = wanted["metadata"]["ownerReferences"][0]["uid"]
    return any(reference["uid"] == uid for reference in found["metadata"].get("ownerReferences") or ())
