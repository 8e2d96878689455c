"""Placement: propagates the hub's workloads to clusters as leaves, divides replicas, and aggregates their status."""
