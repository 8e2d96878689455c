"""Registers a worker at its hub and renews its Lease."""
