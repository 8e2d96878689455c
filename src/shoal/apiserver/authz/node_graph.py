"""The node graph of `authz.node` from the watch cache: which pods are bound to a node and what they reference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shoal.apiserver.cache.cacher import CachedObject, WatchCache
from shoal.apiserver.cache.trigger import Trigger, field_reader
from shoal.kinds.core.pod.references import CLAIM_PLURAL, SECRET_PLURAL, PodReference, all_pod_references

Object = dict[str, Any]

_NODE_FIELD = "spec.nodeName"
_read_node = field_reader(_NODE_FIELD)


class CachedNodeGraph:
    def __init__(self, cache: WatchCache) -> None:
        self._pods = cache.resource_cache("", "pods")
        self._claims = cache.resource_cache("", CLAIM_PLURAL)
        self._volumes = cache.resource_cache("", "persistentvolumes")
        self._attachments = cache.resource_cache("storage.k8s.io", "volumeattachments")

    def has_pod(self, cluster: str, node: str, namespace: str, pod: str) -> bool:
        entry = self._pods.get(cluster, namespace, pod)
        return entry is not None and _read_node(entry.data) == node

    def references(self, cluster: str, node: str, namespace: str, need: PodReference) -> bool:
        if any(need in all_pod_references(pod) for pod in self._pods_on_node(cluster, node, namespace)):
            return True
        return need.plural == SECRET_PLURAL and any(
            (namespace, need.name) in _secrets_of(volume) for volume in self._volumes_of(cluster, node)
        )

    def references_volume(self, cluster: str, node: str, volume: str) -> bool:
        return any(each["metadata"]["name"] == volume for each in self._volumes_of(cluster, node))

    def has_attachment(self, cluster: str, node: str, attachment: str) -> bool:
        entry = self._attachments.get(cluster, "", attachment)
        return entry is not None and _read_node(entry.data) == node

    def _pods_on_node(self, cluster: str, node: str, namespace: str = "") -> Iterator[Object]:
        trigger = Trigger(_NODE_FIELD, _NODE_FIELD, node, _node_of)
        for entry in self._pods.table(cluster).select(namespace, "", trigger):
            if _node_of(entry) == node:
                yield entry.object()

    def _volumes_of(self, cluster: str, node: str) -> Iterator[Object]:
        """PersistentVolumes that are bound to the claims of the node's pods."""
        for pod in self._pods_on_node(cluster, node):
            namespace = pod["metadata"]["namespace"]
            for need in all_pod_references(pod):
                claim = self._claims.get(cluster, namespace, need.name) if need.plural == CLAIM_PLURAL else None
                name = (claim.object().get("spec") or {}).get("volumeName") if claim is not None else None
                volume = self._volumes.get(cluster, "", name) if name else None
                if volume is not None:
                    yield volume.object()


def _node_of(entry: CachedObject) -> str:
    return _read_node(entry.data)


def _secrets_of(volume: Object) -> set[tuple[str, str]]:
    """Namespace and name of the Secrets a CSI driver gets on the node."""
    csi = (volume.get("spec") or {}).get("csi") or {}
    fields = ("nodePublishSecretRef", "nodeStageSecretRef", "nodeExpandSecretRef")
    references = (csi.get(field) or {} for field in fields)
    return {(each.get("namespace", ""), each["name"]) for each in references if each.get("name")}
