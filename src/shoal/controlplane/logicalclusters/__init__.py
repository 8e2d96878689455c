"""Finalizes LogicalClusters."""
