"""Registers ManagedClusters and Cluster API Clusters as workload Clusters, and reports their capacity."""
