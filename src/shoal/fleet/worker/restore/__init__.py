"""Restores a migrated cluster from its replicated log at the hub."""
