"""The node graph of `authz.node` from the watch cache: which pods are bound to a node and what they reference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shoal.apiserver.cache import Cache, Entry
from shoal.apiserver.fields import Pin, reader
from shoal.kinds.pod_references import CLAIMS, SECRETS, Need, every_need_of

Object = dict[str, Any]

_NODE = "spec.nodeName"
_read_node = reader(_NODE)


class CachedBound:
    def __init__(self, cache: Cache) -> None:
        self._pods = cache.kind("", "pods")
        self._claims = cache.kind("", CLAIMS)
        self._volumes = cache.kind("", "persistentvolumes")
        self._attachments = cache.kind("storage.k8s.io", "volumeattachments")

    def runs(self, cluster: str, node: str, namespace: str, pod: str) -> bool:
        entry = self._pods.get(cluster, namespace, pod)
        return entry is not None and _read_node(entry.data) == node

    def needs(self, cluster: str, node: str, namespace: str, need: Need) -> bool:
        if any(need in every_need_of(pod) for pod in self._bound(cluster, node, namespace)):
            return True
        return need.plural == SECRETS and any(
            (namespace, need.name) in _secrets_of(volume) for volume in self._volumes_of(cluster, node)
        )

    def needs_volume(self, cluster: str, node: str, volume: str) -> bool:
        return any(found["metadata"]["name"] == volume for found in self._volumes_of(cluster, node))

    def is_attached(self, cluster: str, node: str, attachment: str) -> bool:
        entry = self._attachments.get(cluster, "", attachment)
        return entry is not None and _read_node(entry.data) == node

    def _bound(self, cluster: str, node: str, namespace: str = "") -> Iterator[Object]:
        pin = Pin(_NODE, _NODE, node, _node_of)
        for entry in self._pods.table(cluster).select(namespace, "", pin):
            if _node_of(entry) == node:
                yield entry.object()

    def _volumes_of(self, cluster: str, node: str) -> Iterator[Object]:
        """PersistentVolumes that are bound to the claims of the node's pods."""
        for pod in self._bound(cluster, node):
            namespace = pod["metadata"]["namespace"]
            for need in every_need_of(pod):
                claim = self._claims.get(cluster, namespace, need.name) if need.plural == CLAIMS else None
                name = (claim.object().get("spec") or {}).get("volumeName") if claim is not None else None
                volume = self._volumes.get(cluster, "", name) if name else None
                if volume is not None:
                    yield volume.object()


def _node_of(entry: Entry) -> str:
    return _read_node(entry.data)


def _secrets_of(volume: Object) -> set[tuple[str, str]]:
    """Namespace and name of the Secrets a CSI driver gets on the node."""
    csi = (volume.get("spec") or {}).get("csi") or {}
    fields = ("nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef")
    references = (csi.get(field) or {} for field in fields)
    return {(each.get("namespace", ""), each["name"]) for each in references if each.get("name")}
