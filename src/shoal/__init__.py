"""Shoal: a fleet of Kubernetes clusters behind one Kubernetes API."""

__version__ = "0.1.0"
