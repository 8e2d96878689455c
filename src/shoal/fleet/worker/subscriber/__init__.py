"""Copies the ManagedClusters assigned to a worker into its own root."""
