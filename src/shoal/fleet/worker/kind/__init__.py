"""Kind clusters of ManagedClusters: what the worker offers to them, and its access to them."""
