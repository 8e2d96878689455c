"""Explains why a ManagedCluster is on its Worker, or why it is unschedulable."""
