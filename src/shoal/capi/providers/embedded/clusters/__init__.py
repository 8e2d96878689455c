"""The EmbeddedCluster reconciler."""
