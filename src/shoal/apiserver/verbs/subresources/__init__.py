"""Verbs of subresources, and of resources that are not stored."""
