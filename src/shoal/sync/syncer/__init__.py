"""The syncer of a workload Cluster: applies hub objects downstream and copies their status back."""
