"""The EmbeddedCluster loop."""
