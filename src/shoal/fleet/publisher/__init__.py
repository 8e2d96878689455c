"""Publishes the desired state of ManagedClusters to NATS, for the workers."""
