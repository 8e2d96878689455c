"""Worker health: heartbeats by Lease, the Ready condition of Workers, and its effect on the status of
ManagedClusters.
"""
