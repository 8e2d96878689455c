"""Replicates the log of hosted clusters to the hub, for migration and loss."""
