"""The GroupVersionResources that the controllers of this package use."""

from __future__ import annotations

from shoal.client.rest import GroupVersionResource
from shoal.kinds.karpenter import karpenter
from shoal.kinds.workload import apiresource, workloadcluster

CLUSTERS = GroupVersionResource(
    workloadcluster.GROUP, workloadcluster.VERSION, workloadcluster.PLURAL, namespaced=False
)
IMPORTS = GroupVersionResource(apiresource.GROUP, apiresource.VERSION, apiresource.IMPORT_PLURAL, namespaced=False)
NEGOTIATED = GroupVersionResource(
    apiresource.GROUP, apiresource.VERSION, apiresource.NEGOTIATED_PLURAL, namespaced=False
)
SCHEMAS = GroupVersionResource(apiresource.GROUP, apiresource.VERSION, apiresource.SCHEMA_PLURAL, namespaced=False)
CRDS = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)
MANAGED_CLUSTERS = GroupVersionResource("infrastructure.cluster.x-k8s.io", "v1alpha1", "managedclusters")
CLUSTER_API_CLUSTERS = GroupVersionResource("cluster.x-k8s.io", "v1beta2", "clusters")
NODES = GroupVersionResource("", "v1", "nodes", namespaced=False)
PODS = GroupVersionResource("", "v1", "pods")
NAMESPACES = GroupVersionResource("", "v1", "namespaces", namespaced=False)
SECRETS = GroupVersionResource("", "v1", "secrets")
NODE_POOLS = GroupVersionResource(karpenter.GROUP, karpenter.VERSION, "nodepools", namespaced=False)
