"""Rebalances ManagedClusters over Workers with as few migrations as possible."""
