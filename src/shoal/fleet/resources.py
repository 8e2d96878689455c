"""GroupVersionResources that the fleet's controllers use."""

from __future__ import annotations

from shoal.client.rest import GroupVersionResource
from shoal.kinds.fleet import infrav1, logicalcluster

MANAGED_CLUSTERS = GroupVersionResource(infrav1.GROUP, infrav1.VERSION, "managedclusters")
WORKERS = GroupVersionResource(infrav1.GROUP, infrav1.VERSION, "workers")
LEASES = GroupVersionResource("coordination.k8s.io", "v1", "leases")
NAMESPACES = GroupVersionResource("", "v1", "namespaces", namespaced=False)
SECRETS = GroupVersionResource("", "v1", "secrets")
CSRS = GroupVersionResource("certificates.k8s.io", "v1", "certificatesigningrequests", namespaced=False)
CLUSTER_ROLE_BINDINGS = GroupVersionResource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", namespaced=False)
CONFIG_MAPS = GroupVersionResource("", "v1", "configmaps")
LOGICAL_CLUSTERS = GroupVersionResource(
    logicalcluster.GROUP, logicalcluster.VERSION, logicalcluster.PLURAL, namespaced=False
)
