"""The fleet scheduler: assigns each ManagedCluster to a Worker, reports why one is unschedulable, and asks for new
Workers.
"""
