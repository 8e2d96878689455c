"""Migrates ManagedClusters between Workers: drain, NoExecute taints, lost Workers, and the rebalancer's moves."""
