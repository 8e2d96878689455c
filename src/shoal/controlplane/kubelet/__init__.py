"""Simulated kubelet.

`informers` follows Nodes and the Pods bound to them, once for all controllers of nodes; `cluster_source` selects the
clusters.
"""
