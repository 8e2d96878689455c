"""Node lifecycle: taints by condition, taint eviction and pod garbage collection."""
