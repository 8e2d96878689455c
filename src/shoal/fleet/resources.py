"""GroupVersionResources that the fleet's controllers use."""

from __future__ import annotations

from shoal.client.requests import Kind
from shoal.kinds import fleet, logicalcluster

MANAGED_CLUSTERS = Kind(fleet.GROUP, fleet.VERSION, "managedclusters")
WORKERS = Kind(fleet.GROUP, fleet.VERSION, "workers")
LEASES = Kind("coordination.k8s.io", "v1", "leases")
NAMESPACES = Kind("", "v1", "namespaces", namespaced=False)
SECRETS = Kind("", "v1", "secrets")
REQUESTS = Kind("certificates.k8s.io", "v1", "certificatesigningrequests", namespaced=False)
CONFIG_MAPS = Kind("", "v1", "configmaps")
LOGICAL_CLUSTERS = Kind(logicalcluster.GROUP, logicalcluster.VERSION, logicalcluster.PLURAL, namespaced=False)
