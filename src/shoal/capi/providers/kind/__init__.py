"""The kind provider: creates the cluster of a KINDCluster with the kind command."""
