"""Metrics, logs and spans of a process. Nothing is served or sent here; that is done in `assemble`."""
