"""The Cluster reconciler."""
