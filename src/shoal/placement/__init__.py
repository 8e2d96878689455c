"""Where the hub's workloads go: one Deployment becomes one in each cluster, and their statuses one status again."""
