"""Rotates the keys of logical clusters."""
