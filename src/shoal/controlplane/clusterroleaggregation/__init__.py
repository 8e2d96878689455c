"""ClusterRole aggregation controller."""
