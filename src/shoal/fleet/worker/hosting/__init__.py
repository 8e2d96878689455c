"""Hosts ManagedClusters as Cluster API objects in the worker's own root."""
