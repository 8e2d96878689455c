"""The GroupVersionResources that the controllers of this package use."""

from __future__ import annotations

from shoal.client.requests import Kind
from shoal.kinds import apiresource, workload

CLUSTERS = Kind(workload.GROUP, workload.VERSION, workload.PLURAL, namespaced=False)
IMPORTS = Kind(apiresource.GROUP, apiresource.VERSION, apiresource.IMPORTS, namespaced=False)
NEGOTIATED = Kind(apiresource.GROUP, apiresource.VERSION, apiresource.NEGOTIATED_PLURAL, namespaced=False)
SCHEMAS = Kind(apiresource.GROUP, apiresource.VERSION, apiresource.SCHEMAS, namespaced=False)
DEFINITIONS = Kind("apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False)
MANAGED_CLUSTERS = Kind("infrastructure.cluster.x-k8s.io", "v1alpha1", "managedclusters")
CLUSTER_API_CLUSTERS = Kind("cluster.x-k8s.io", "v1beta2", "clusters")
NODES = Kind("", "v1", "nodes", namespaced=False)
PODS = Kind("", "v1", "pods")
NAMESPACES = Kind("", "v1", "namespaces", namespaced=False)
SECRETS = Kind("", "v1", "secrets")
