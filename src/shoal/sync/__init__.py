"""Workload Clusters, after kcp and OCM: registration, API import and negotiation, and the syncer that copies objects
down and status up.
"""
