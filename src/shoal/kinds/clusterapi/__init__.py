"""Cluster API kinds, the embedded and kind infrastructure providers, and simulated machines and nodes."""
