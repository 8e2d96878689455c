"""Workload Clusters: registration, the APIs they offer, the objects copied to them, the status that returns."""
