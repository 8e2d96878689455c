"""The fleet's kinds: ManagedCluster, Worker and LogicalCluster, worker join, node pools and migration between
Workers.
"""
