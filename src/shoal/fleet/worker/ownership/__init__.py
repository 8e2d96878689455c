"""Confirms with the hub that a hosted cluster is still assigned to this worker."""
