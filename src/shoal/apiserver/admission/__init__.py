"""Admission of writes: built-in plugins in order, then webhooks and policies."""
