"""The workload kinds on a hub: WorkloadCluster (workload.kcp.dev), imported and negotiated APIs, Placement, and roots
with their leaves.
"""
