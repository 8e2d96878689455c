"""Cluster API: clusters and machines as objects, and the providers that make them real."""
