"""Metrics of requests, storage and state."""
