"""The kind provider: a KINDCluster becomes a cluster of containers, made by the kind command."""
